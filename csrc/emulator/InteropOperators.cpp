// Descriptions of operators in the older style: kept faithfully, but such an operator is compiled
// for the chip when it is executed, which the emulator cannot do.
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "emulator/Error.h"
#include "emulator/Interop.h"
#include "emulator/Trace.h"

struct aclDataBuffer {
  void* data;
  size_t size;
};

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;
  std::string name;
  aclMemType placement = ACL_MEMTYPE_DEVICE;
};

struct aclopAttr {
  using Value = std::variant<
      bool, aclDataType, float, int64_t, std::string, std::vector<uint8_t>, std::vector<float>,
      std::vector<int64_t>, std::vector<std::vector<int64_t>>>;
  std::map<std::string, Value> values;
};

using namespace npu_emulator;

namespace {

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

aclError setAttribute(const char* call, aclopAttr* attr, const char* name, aclopAttr::Value value) {
  if (attr == nullptr || name == nullptr) {
    return bad(call, "null pointer");
  }
  attr->values.insert_or_assign(name, std::move(value));
  return ACL_SUCCESS;
}

template <class T>
aclError setList(const char* call, aclopAttr* attr, const char* name, int count, const T* values) {
  if (count < 0 || (count > 0 && values == nullptr)) {
    return bad(call, "a list of " + std::to_string(count) + " values, or none where some are");
  }
  return setAttribute(call, attr, name, std::vector<T>(values, values + count));
}

aclError refuse(const char* call, const char* opType) {
  return fail(
      ACL_ERROR_OP_NOT_FOUND,
      std::string(call) + ": operator " + (opType == nullptr ? "(null)" : opType) +
          " would be compiled for the chip; the emulator has aclnn operators only, and the caller "
          "found none for it");
}

}  // namespace

extern "C" {

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return new aclDataBuffer{data, size};
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  delete dataBuffer;
  return ACL_SUCCESS;
}

aclTensorDesc* aclCreateTensorDesc(
    aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  if (numDims < 0 || (numDims > 0 && dims == nullptr)) {
    bad("aclCreateTensorDesc", "no dimensions");
    return nullptr;
  }
  return new aclTensorDesc{dataType, format, std::vector<int64_t>(dims, dims + numDims), {}};
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  delete desc;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  if (desc == nullptr || dimSize == nullptr || index >= desc->dims.size()) {
    return bad("aclGetTensorDescDimV2", "null pointer or no such dimension");
  }
  *dimSize = desc->dims[index];
  return ACL_SUCCESS;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_FORMAT_UNDEFINED : desc->format;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return desc == nullptr ? 0 : desc->dims.size();
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_DT_UNDEFINED : desc->type;
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc != nullptr) {
    desc->name = name == nullptr ? "" : name;
  }
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  if (desc == nullptr) {
    return bad("aclSetTensorFormat", "null description");
  }
  desc->format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  if (desc == nullptr) {
    return bad("aclSetTensorPlaceMent", "null description");
  }
  desc->placement = memType;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  if (desc == nullptr || numDims < 0 || (numDims > 0 && dims == nullptr)) {
    return bad("aclSetTensorShape", "null description or no dimensions");
  }
  desc->dims.assign(dims, dims + numDims);
  return ACL_SUCCESS;
}

aclopAttr* aclopCreateAttr() {
  return new aclopAttr;
}

void aclopDestroyAttr(const aclopAttr* attr) {
  delete attr;
}

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return setAttribute("aclopSetAttrBool", attr, attrName, attrValue != 0);
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  return setAttribute("aclopSetAttrDataType", attr, attrName, attrValue);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return setAttribute("aclopSetAttrFloat", attr, attrName, attrValue);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return setAttribute("aclopSetAttrInt", attr, attrName, attrValue);
}

aclError aclopSetAttrListBool(
    aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
  return setList("aclopSetAttrListBool", attr, attrName, numValues, values);
}

aclError aclopSetAttrListFloat(
    aclopAttr* attr, const char* attrName, int numValues, const float* values) {
  return setList("aclopSetAttrListFloat", attr, attrName, numValues, values);
}

aclError aclopSetAttrListInt(
    aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
  return setList("aclopSetAttrListInt", attr, attrName, numValues, values);
}

aclError aclopSetAttrListListInt(
    aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
    const int64_t* const values[]) {
  if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr))) {
    return bad("aclopSetAttrListListInt", "no lists");
  }
  std::vector<std::vector<int64_t>> lists;
  for (int i = 0; i < numLists; ++i) {
    lists.emplace_back(values[i], values[i] + numValues[i]);
  }
  return setAttribute("aclopSetAttrListListInt", attr, attrName, std::move(lists));
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  if (attrValue == nullptr) {
    return bad("aclopSetAttrString", "null value");
  }
  return setAttribute("aclopSetAttrString", attr, attrName, std::string(attrValue));
}

aclError aclopCompileAndExecute(
    const char* opType, int, const aclTensorDesc* const[], const aclDataBuffer* const[], int,
    const aclTensorDesc* const[], aclDataBuffer* const[], const aclopAttr*, aclopEngineType,
    aclopCompileType, const char*, aclrtStream) {
  return call("aclopCompileAndExecute", [&] { return refuse("aclopCompileAndExecute", opType); });
}

aclError aclopCompileAndExecuteV2(
    const char* opType, int, aclTensorDesc*[], aclDataBuffer*[], int, aclTensorDesc*[],
    aclDataBuffer*[], aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return call(
      "aclopCompileAndExecuteV2", [&] { return refuse("aclopCompileAndExecuteV2", opType); });
}

}  // extern "C"
