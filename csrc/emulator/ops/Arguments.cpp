#include "emulator/ops/Arguments.h"

#include <c10/util/irange.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

#include "emulator/Interface.h"

namespace npu_emulator::ops {

namespace {

bool strict() {
  static const bool strict = [] {
    const char* value = std::getenv("TORCH_NPU_EMULATOR_STRICT_DTYPES");
    return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
  }();
  return strict;
}

[[noreturn]] void refuseNull(const char* name) {
  throw Refusal{kParamNull, std::string(name) + " is a null pointer"};
}

const char* typeName(aclDataType type) {
  switch (type) {
    case ACL_FLOAT: return "FLOAT";
    case ACL_FLOAT16: return "FLOAT16";
    case ACL_INT8: return "INT8";
    case ACL_INT32: return "INT32";
    case ACL_UINT8: return "UINT8";
    case ACL_INT16: return "INT16";
    case ACL_UINT16: return "UINT16";
    case ACL_UINT32: return "UINT32";
    case ACL_INT64: return "INT64";
    case ACL_UINT64: return "UINT64";
    case ACL_DOUBLE: return "DOUBLE";
    case ACL_BOOL: return "BOOL";
    case ACL_COMPLEX64: return "COMPLEX64";
    case ACL_COMPLEX128: return "COMPLEX128";
    case ACL_COMPLEX32: return "COMPLEX32";
    case ACL_BF16: return "BFLOAT16";
    case ACL_FLOAT8_E5M2: return "FLOAT8_E5M2";
    case ACL_FLOAT8_E4M3FN: return "FLOAT8_E4M3FN";
    case ACL_FLOAT8_E8M0: return "FLOAT8_E8M0";
    default: return "(other)";
  }
}

std::optional<ScalarType> scalarTypeOf(aclDataType type) {
  switch (type) {
    case ACL_FLOAT: return at::kFloat;
    case ACL_FLOAT16: return at::kHalf;
    case ACL_INT8: return at::kChar;
    case ACL_INT32: return at::kInt;
    case ACL_UINT8: return at::kByte;
    case ACL_INT16: return at::kShort;
    case ACL_UINT16: return at::kUInt16;
    case ACL_UINT32: return at::kUInt32;
    case ACL_INT64: return at::kLong;
    case ACL_UINT64: return at::kUInt64;
    case ACL_DOUBLE: return at::kDouble;
    case ACL_BOOL: return at::kBool;
    case ACL_COMPLEX64: return at::kComplexFloat;
    case ACL_COMPLEX128: return at::kComplexDouble;
    case ACL_COMPLEX32: return at::kComplexHalf;
    case ACL_BF16: return at::kBFloat16;
    case ACL_FLOAT8_E5M2: return at::kFloat8_e5m2;
    case ACL_FLOAT8_E4M3FN: return at::kFloat8_e4m3fn;
    case ACL_FLOAT8_E8M0: return at::kFloat8_e8m0fnu;
    default: return std::nullopt;
  }
}

template <class T>
T read(const aclScalar& scalar) {
  return *reinterpret_cast<const T*>(scalar.value.data());
}

bool isPlain(aclFormat format) {
  switch (format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NCL:
      return true;
    default:
      return false;
  }
}

// A parameter, or one entry of a parameter that is a list: text only where a message needs it.
struct Name {
  const char* parameter;
  std::optional<std::size_t> entry = std::nullopt;

  std::string text() const {
    return entry ? std::string(parameter) + "[" + std::to_string(*entry) + "]" : parameter;
  }
};

// Elements from the first of a view to its last.
int64_t spannedElements(const aclTensor& tensor) {
  const auto& sizes = tensor.plannedSizes();
  int64_t last = 0;
  for (const std::size_t dim : c10::irange(sizes.size())) {
    if (sizes[dim] == 0) {
      return 0;
    }
    last += (sizes[dim] - 1) * tensor.strides[dim];
  }
  return last + 1;
}

// A view that leaves its storage would read a neighbour's memory.
void checkStorage(const aclTensor& tensor, int64_t spanned, std::size_t size, const Name& name) {
  if (spanned == 0) {
    return;
  }
  if (tensor.storage == nullptr) {
    throw Refusal{kParamNull, name.text() + " has elements but its data is a null pointer"};
  }
  int64_t elements = 1;
  for (const int64_t dim : tensor.storageSizes) {
    elements *= dim;
  }
  if (tensor.offset < 0 ||
      (!tensor.storageSizes.empty() && tensor.offset + spanned > elements)) {
    std::ostringstream message;
    message << name.text() << " with view shape " << IntArrayRef(tensor.plannedSizes())
            << ", strides " << IntArrayRef(tensor.strides) << " and offset " << tensor.offset
            << " leaves its storage of " << elements << " elements";
    refuse(message.str());
  }
  const auto* data =
      static_cast<const char*>(tensor.storage) + tensor.offset * static_cast<int64_t>(size);
  if (strict() && !npu_emulator_interface()->isDeviceMemory(data, spanned * size)) {
    refuse(name.text() + " is not in device memory");
  }
}

Tensor viewOf(const aclTensor& tensor, const Name& name) {
  const auto type = scalarTypeOf(tensor.type);
  if (!type) {
    refuse(
        name.text() + " has data type " + std::to_string(tensor.type) +
        ", which the emulator cannot compute with");
  }
  if (!isPlain(tensor.format)) {
    refuse(
        name.text() + " has the private format " + std::to_string(tensor.format) +
        "; the emulator takes base formats only (ND, NCHW, ...)");
  }
  const std::size_t size = c10::elementSize(*type);
  const int64_t spanned = spannedElements(tensor);
  checkStorage(tensor, spanned, size, name);
  char* data = static_cast<char*>(tensor.storage);
  if (spanned != 0) {
    data += tensor.offset * static_cast<int64_t>(size);
  }
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(
          c10::Storage::use_byte_size_t(), spanned * size, c10::DataPtr(data, at::kCPU), nullptr,
          /*resizable=*/false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(*type));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.plannedSizes(), tensor.strides);
  return view;
}

}  // namespace

void checkDocumented(
    const char* op, const char* name, const aclTensor* tensor, uint64_t documented) {
  if (tensor == nullptr || documented == 0 || tensor->type < 0 || tensor->type >= 64 ||
      (documented >> tensor->type & 1) != 0) {
    return;
  }
  if (strict()) {
    refuse(
        std::string(name) + " is of type " + typeName(tensor->type) +
        ", which CANN does not document for this operator "
        "(TORCH_NPU_EMULATOR_STRICT_DTYPES is set)");
  }
  static std::mutex mutex;  // guards warned
  static std::set<std::pair<std::string_view, int>> warned;
  std::lock_guard lock(mutex);
  if (warned.emplace(op, tensor->type).second) {
    std::fprintf(
        stderr, "npu emulator: CANN does not document %s for %s; computed all the same\n",
        typeName(tensor->type), op);
  }
}

void checkDocumented(
    const char* op, const char* name, const aclTensorList* tensors, uint64_t documented) {
  if (tensors != nullptr) {
    for (const aclTensor* member : tensors->members) {
      checkDocumented(op, name, member, documented);
    }
  }
}

Tensor toTensor(const aclTensor* tensor, const char* name) {
  if (tensor == nullptr) {
    refuseNull(name);
  }
  return viewOf(*tensor, {name});
}

OptionalTensor toOptionalTensor(const aclTensor* tensor, const char* name) {
  return tensor == nullptr ? OptionalTensor() : OptionalTensor(toTensor(tensor, name));
}

Resizable toResizable(const aclTensor* tensor, const char* name) {
  return {toTensor(tensor, name), const_cast<aclTensor*>(tensor)};
}

Tensors toTensors(const aclTensorList* list, const char* name) {
  Tensors tensors;
  if (list == nullptr) {
    return tensors;
  }
  tensors.reserve(list->members.size());
  for (const std::size_t i : c10::irange(list->members.size())) {
    const aclTensor* member = list->members[i];
    tensors.push_back(member == nullptr ? Tensor() : viewOf(*member, {name, i}));
  }
  return tensors;
}

Scalar toScalar(const aclScalar* scalar, const char* name) {
  if (scalar == nullptr) {
    refuseNull(name);
  }
  switch (scalar->type) {
    case ACL_DOUBLE: return read<double>(*scalar);
    case ACL_FLOAT: return static_cast<double>(read<float>(*scalar));
    case ACL_FLOAT16: return static_cast<double>(read<at::Half>(*scalar));
    case ACL_BF16: return static_cast<double>(read<at::BFloat16>(*scalar));
    case ACL_INT64: return read<int64_t>(*scalar);
    case ACL_INT32: return static_cast<int64_t>(read<int32_t>(*scalar));
    case ACL_INT16: return static_cast<int64_t>(read<int16_t>(*scalar));
    case ACL_INT8: return static_cast<int64_t>(read<int8_t>(*scalar));
    case ACL_UINT8: return static_cast<int64_t>(read<uint8_t>(*scalar));
    case ACL_UINT16: return static_cast<int64_t>(read<uint16_t>(*scalar));
    case ACL_UINT32: return static_cast<int64_t>(read<uint32_t>(*scalar));
    case ACL_UINT64: return read<uint64_t>(*scalar);
    case ACL_BOOL: return read<bool>(*scalar);
    case ACL_COMPLEX64: return c10::complex<double>(read<c10::complex<float>>(*scalar));
    case ACL_COMPLEX128: return read<c10::complex<double>>(*scalar);
    default:
      refuse(std::string(name) + " is a scalar of type " + std::to_string(scalar->type) +
             ", which the emulator cannot compute with");
  }
}

OptionalScalar toOptionalScalar(const aclScalar* scalar, const char* name) {
  return scalar == nullptr ? OptionalScalar() : OptionalScalar(toScalar(scalar, name));
}

Scalars toScalars(const aclScalarList* list, const char* name) {
  Scalars scalars;
  if (list != nullptr) {
    for (const aclScalar* member : list->members) {
      scalars.push_back(toScalar(member, name));
    }
  }
  return scalars;
}

Ints toInts(const aclIntArray* array, const char* name) {
  if (array == nullptr) {
    refuseNull(name);
  }
  return array->values;
}

OptionalInts toOptionalInts(const aclIntArray* array, const char* /*name*/) {
  return array == nullptr ? OptionalInts() : OptionalInts(array->values);
}

Bools toBools(const aclBoolArray* array, const char* name) {
  if (array == nullptr) {
    refuseNull(name);
  }
  return array->values;
}

Text toText(const char* text, const char* name) {
  if (text == nullptr) {
    refuseNull(name);
  }
  return text;
}

OptionalText toOptionalText(const char* text, const char* /*name*/) {
  return text == nullptr ? OptionalText() : OptionalText(text);
}

ScalarType toScalarType(aclDataType type, const char* name) {
  if (const auto known = scalarTypeOf(type)) {
    return *known;
  }
  refuse(
      std::string(name) + " is data type " + std::to_string(type) +
      ", which the emulator cannot compute with");
}

}  // namespace npu_emulator::ops
