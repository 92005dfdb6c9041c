#include "emulator/OpApi.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "emulator/Error.h"

namespace npu_emulator {

std::size_t elementSize(aclDataType type) noexcept {
  switch (type) {
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_FLOAT16:
    case ACL_BF16:
      return 2;
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_FLOAT:
    case ACL_COMPLEX32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

namespace {

void missing(const char* call, const char* parameter) {
  fail(kParamNull, std::string(call) + ": " + parameter + " is a null pointer");
}

template <class Array, class Element>
Array* createArray(const char* call, const Element* value, uint64_t size) {
  if (value == nullptr && size != 0) {
    missing(call, "value");
    return nullptr;
  }
  auto array = std::make_unique<Array>();
  array->values.assign(value, value + size);
  return array.release();
}

template <class Array>
aclnnStatus destroy(const Array* array) {
  delete array;  // deleting null is allowed, as in CANN
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclTensor* aclCreateTensor(
    const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
    int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
    void* tensorData) {
  if (viewDims == nullptr && viewDimsNum != 0) {
    missing("aclCreateTensor", "viewDims");
    return nullptr;
  }
  if (storageDims == nullptr && storageDimsNum != 0) {
    missing("aclCreateTensor", "storageDims");
    return nullptr;
  }
  if (std::any_of(viewDims, viewDims + viewDimsNum, [](int64_t size) { return size < 0; })) {
    fail(kParamInvalid, "aclCreateTensor: a view dimension is negative");
    return nullptr;
  }
  auto* tensor = new aclTensor;
  tensor->type = dataType;
  tensor->format = format;
  tensor->storage = tensorData;
  tensor->offset = offset;
  tensor->setSizes({viewDims, viewDims + viewDimsNum});
  tensor->strides.resize(viewDimsNum);
  if (stride != nullptr) {
    std::copy_n(stride, viewDimsNum, tensor->strides.begin());
  } else {
    int64_t step = 1;
    for (uint64_t dim = viewDimsNum; dim-- > 0;) {
      tensor->strides[dim] = step;
      step *= viewDims[dim];
    }
  }
  tensor->storageSizes.assign(storageDims, storageDims + storageDimsNum);
  return tensor;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  if (tensor != nullptr) {
    const_cast<aclTensor*>(tensor)->release();
  }
  return ACL_SUCCESS;
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  if (value == nullptr && size != 0) {
    missing("aclCreateTensorList", "value");
    return nullptr;
  }
  auto list = std::make_unique<aclTensorList>();
  for (uint64_t i = 0; i < size; ++i) {
    list->members.push_back(const_cast<aclTensor*>(value[i]));
  }
  return list.release();
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  if (array != nullptr) {
    for (aclTensor* member : array->members) {
      aclDestroyTensor(member);
    }
  }
  return destroy(array);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  if (value == nullptr) {
    missing("aclCreateScalar", "value");
    return nullptr;
  }
  const std::size_t size = elementSize(dataType);
  if (size == 0) {
    fail(kParamInvalid,
         "aclCreateScalar: data type " + std::to_string(dataType) + " cannot be a scalar");
    return nullptr;
  }
  auto scalar = std::make_unique<aclScalar>();
  scalar->type = dataType;
  std::memcpy(scalar->value.data(), value, size);
  return scalar.release();
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy(scalar); }

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  if (value == nullptr && size != 0) {
    missing("aclCreateScalarList", "value");
    return nullptr;
  }
  auto list = std::make_unique<aclScalarList>();
  for (uint64_t i = 0; i < size; ++i) {
    list->members.push_back(const_cast<aclScalar*>(value[i]));
  }
  return list.release();
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  if (array != nullptr) {
    for (aclScalar* member : array->members) {
      destroy(member);
    }
  }
  return destroy(array);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return createArray<aclIntArray>("aclCreateIntArray", value, size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy(array); }

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return createArray<aclBoolArray>("aclCreateBoolArray", value, size);
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return destroy(array); }

// The caller frees *viewDims with delete[].
aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  if (tensor == nullptr || viewDims == nullptr || viewDimsNum == nullptr) {
    return fail(kParamNull, "aclGetViewShape: tensor, viewDims and viewDimsNum must not be null");
  }
  const std::vector<int64_t> sizes = tensor->sizes();
  *viewDims = new int64_t[sizes.size()];
  std::copy(sizes.begin(), sizes.end(), *viewDims);
  *viewDimsNum = sizes.size();
  return ACL_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) { return destroy(executor); }

}  // extern "C"
