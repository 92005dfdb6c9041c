#include "aten/Descriptor.h"

#include <c10/util/Exception.h>

#include <cstdio>

namespace torch_npu::aten {
namespace {

// Formats of tensors stored as they are seen: CANN names them by their number of dimensions.
aclFormat baseFormat(size_t dims) {
  switch (dims) {
    case 3:
      return ACL_FORMAT_NCL;
    case 4:
      return ACL_FORMAT_NCHW;
    case 5:
      return ACL_FORMAT_NCDHW;
    default:
      return ACL_FORMAT_ND;
  }
}

const char* typeName(aclDataType type) {
  switch (type) {
    case ACL_FLOAT:
      return "float32";
    case ACL_FLOAT16:
      return "float16";
    case ACL_BF16:
      return "bfloat16";
    case ACL_DOUBLE:
      return "float64";
    case ACL_INT8:
      return "int8";
    case ACL_INT16:
      return "int16";
    case ACL_INT32:
      return "int32";
    case ACL_INT64:
      return "int64";
    case ACL_UINT8:
      return "uint8";
    case ACL_UINT16:
      return "uint16";
    case ACL_UINT32:
      return "uint32";
    case ACL_UINT64:
      return "uint64";
    case ACL_BOOL:
      return "bool";
    case ACL_COMPLEX32:
      return "complex32";
    case ACL_COMPLEX64:
      return "complex64";
    case ACL_COMPLEX128:
      return "complex128";
    case ACL_FLOAT8_E4M3FN:
      return "float8_e4m3fn";
    case ACL_FLOAT8_E5M2:
      return "float8_e5m2";
    case ACL_FLOAT8_E8M0:
      return "float8_e8m0";
    default:
      return "undefined";
  }
}

template <class Values>
void describeIntegers(std::string& text, const Values& values) {
  text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += std::to_string(values[i]);
  }
  text += ']';
}

}  // namespace

aclDataType toAclDataType(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Float:
      return ACL_FLOAT;
    case at::ScalarType::Half:
      return ACL_FLOAT16;
    case at::ScalarType::BFloat16:
      return ACL_BF16;
    case at::ScalarType::Long:
      return ACL_INT64;
    case at::ScalarType::Bool:
      return ACL_BOOL;
    case at::ScalarType::Int:
      return ACL_INT32;
    case at::ScalarType::Double:
      return ACL_DOUBLE;
    case at::ScalarType::Byte:
      return ACL_UINT8;
    case at::ScalarType::Char:
      return ACL_INT8;
    case at::ScalarType::Short:
      return ACL_INT16;
    case at::ScalarType::UInt16:
      return ACL_UINT16;
    case at::ScalarType::UInt32:
      return ACL_UINT32;
    case at::ScalarType::UInt64:
      return ACL_UINT64;
    case at::ScalarType::ComplexHalf:
      return ACL_COMPLEX32;
    case at::ScalarType::ComplexFloat:
      return ACL_COMPLEX64;
    case at::ScalarType::ComplexDouble:
      return ACL_COMPLEX128;
    case at::ScalarType::Float8_e4m3fn:
      return ACL_FLOAT8_E4M3FN;
    case at::ScalarType::Float8_e5m2:
      return ACL_FLOAT8_E5M2;
    case at::ScalarType::Float8_e8m0fnu:
      return ACL_FLOAT8_E8M0;
    default:
      return ACL_DT_UNDEFINED;
  }
}

aclDataType checkedAclDataType(at::ScalarType type) {
  const aclDataType result = toAclDataType(type);
  TORCH_CHECK_TYPE(
      result != ACL_DT_UNDEFINED, "npu has no counterpart of dtype ", type,
      "; convert the tensor to a supported dtype first");
  return result;
}

void throwMarked(const at::Tensor& tensor) {
  TORCH_CHECK(
      false, "a tensor of shape ", tensor.sizes(), " and dtype ", tensor.scalar_type(),
      " is a lazy ", tensor.is_conj() ? "conjugate" : "negative",
      ", which CANN cannot read; call resolve_conj() or resolve_neg() on it first");
}

void throwWrongDevice(const at::Tensor& tensor, c10::DeviceIndex expected) {
  const c10::Device device(c10::DeviceType::PrivateUse1, expected);
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ",
      device, " and ", tensor.device(), " (a tensor of shape ", tensor.sizes(),
      "); move it there with .to(\"", device, "\")");
}

void throwNoMemory(const at::Tensor& tensor) {
  TORCH_CHECK(
      false, "a tensor of shape ", tensor.sizes(), " and dtype ", tensor.scalar_type(), " on ",
      tensor.device(),
      " has no memory: its storage was resized to 0 (FSDP does so to parameters outside of their "
      "module's forward and backward) or never allocated");
}

void throwOutOfRange(int64_t value, int64_t lowest, int64_t highest) {
  TORCH_CHECK_VALUE(
      false, "the value ", value, " does not fit into this parameter of the aclnn function (", lowest,
      " to ", highest, ")");
}

TensorHandle TensorArgument::create() const {
  if (dtype_ == ACL_DT_UNDEFINED) {
    return nullptr;
  }
  const size_t dims = layout_.size() / 2;
  TensorHandle handle(cann::aclCreateTensor(
      layout_.data(), dims, dtype_, layout_.data() + dims, offset_, baseFormat(dims),
      &storageElements_, 1, base_));
  TORCH_CHECK(handle != nullptr, "aclCreateTensor failed: ", cann::recentMessage());
  return handle;
}

void TensorArgument::describe(std::string& text) const {
  if (dtype_ == ACL_DT_UNDEFINED) {
    text += "null";
    return;
  }
  const size_t dims = layout_.size() / 2;
  text += typeName(dtype_);
  describeIntegers(text, c10::IntArrayRef(layout_.data(), dims));
  int64_t expected = 1;
  bool contiguous = true;
  for (size_t i = dims; i-- > 0;) {
    contiguous = contiguous && (layout_[i] == 1 || layout_[dims + i] == expected);
    expected *= layout_[i];
  }
  if (!contiguous) {
    text += " strides ";
    describeIntegers(text, c10::IntArrayRef(layout_.data() + dims, dims));
  }
}

void TensorListArgument::capture(at::TensorList tensors, c10::DeviceIndex device) {
  tensors_.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    tensors_.emplace_back(tensor, device);
  }
}

TensorListArgument::TensorListArgument(const at::ITensorListRef& tensors, c10::DeviceIndex device) {
  tensors_.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    tensors_.emplace_back(tensor, device);
  }
}

TensorListHandle TensorListArgument::create() const {
  if (tensors_.empty()) {
    return nullptr;
  }
  c10::SmallVector<TensorHandle, 8> members;
  members.reserve(tensors_.size());
  c10::SmallVector<const aclTensor*, 8> pointers;
  pointers.reserve(tensors_.size());
  for (const TensorArgument& tensor : tensors_) {
    members.push_back(tensor.create());
    pointers.push_back(members.back().get());
  }
  TensorListHandle list(cann::aclCreateTensorList(pointers.data(), pointers.size()));
  TORCH_CHECK(list != nullptr, "aclCreateTensorList failed: ", cann::recentMessage());
  for (TensorHandle& member : members) {
    member.release();  // destroyed with the list
  }
  return list;
}

void TensorListArgument::describe(std::string& text) const {
  constexpr size_t kShown = 8;
  text += '{';
  for (size_t i = 0; i < tensors_.size() && i < kShown; ++i) {
    text += i == 0 ? "" : ", ";
    tensors_[i].describe(text);
  }
  if (tensors_.size() > kShown) {
    text += ", and " + std::to_string(tensors_.size() - kShown) + " more";
  }
  text += '}';
}

namespace {

ScalarHandle createScalar(const c10::Scalar& value) {
  ScalarHandle handle;
  if (value.isFloatingPoint()) {
    double number = value.to<double>();
    handle.reset(cann::aclCreateScalar(&number, ACL_DOUBLE));
  } else if (value.isBoolean()) {
    bool flag = value.to<bool>();
    handle.reset(cann::aclCreateScalar(&flag, ACL_BOOL));
  } else if (value.isComplex()) {
    c10::complex<double> number = value.to<c10::complex<double>>();
    handle.reset(cann::aclCreateScalar(&number, ACL_COMPLEX128));
  } else {
    int64_t number = value.to<int64_t>();
    handle.reset(cann::aclCreateScalar(&number, ACL_INT64));
  }
  TORCH_CHECK(handle != nullptr, "aclCreateScalar failed: ", cann::recentMessage());
  return handle;
}

void describeScalar(std::string& text, const c10::Scalar& value) {
  if (value.isFloatingPoint()) {
    describeFloating(text, value.to<double>());
  } else if (value.isBoolean()) {
    text += value.to<bool>() ? "true" : "false";
  } else if (value.isComplex()) {
    const auto number = value.to<c10::complex<double>>();
    describeFloating(text, number.real());
    text += number.imag() < 0 ? "" : "+";
    describeFloating(text, number.imag());
    text += 'j';
  } else {
    describeInteger(text, value.to<int64_t>());
  }
}

}  // namespace

ScalarHandle ScalarArgument::create() const {
  return present_ ? createScalar(value_) : ScalarHandle();
}

void ScalarArgument::describe(std::string& text) const {
  if (present_) {
    describeScalar(text, value_);
  } else {
    text += "null";
  }
}

ScalarListHandle ScalarListArgument::create() const {
  if (values_.empty()) {
    return nullptr;
  }
  c10::SmallVector<ScalarHandle, 8> members;
  members.reserve(values_.size());
  c10::SmallVector<const aclScalar*, 8> pointers;
  pointers.reserve(values_.size());
  for (const c10::Scalar& value : values_) {
    members.push_back(createScalar(value));
    pointers.push_back(members.back().get());
  }
  ScalarListHandle list(cann::aclCreateScalarList(pointers.data(), pointers.size()));
  TORCH_CHECK(list != nullptr, "aclCreateScalarList failed: ", cann::recentMessage());
  for (ScalarHandle& member : members) {
    member.release();  // destroyed with the list
  }
  return list;
}

void ScalarListArgument::describe(std::string& text) const {
  text += '{';
  for (size_t i = 0; i < values_.size(); ++i) {
    text += i == 0 ? "" : ", ";
    describeScalar(text, values_[i]);
  }
  text += '}';
}

IntArrayHandle IntArrayArgument::create() const {
  if (!present_) {
    return nullptr;
  }
  IntArrayHandle handle(cann::aclCreateIntArray(values_.data(), values_.size()));
  TORCH_CHECK(handle != nullptr, "aclCreateIntArray failed: ", cann::recentMessage());
  return handle;
}

void IntArrayArgument::describe(std::string& text) const {
  if (present_) {
    describeIntegers(text, values_);
  } else {
    text += "null";
  }
}

BoolArrayHandle BoolArrayArgument::create() const {
  BoolArrayHandle handle(cann::aclCreateBoolArray(values_.data(), values_.size()));
  TORCH_CHECK(handle != nullptr, "aclCreateBoolArray failed: ", cann::recentMessage());
  return handle;
}

void BoolArrayArgument::describe(std::string& text) const {
  describeIntegers(text, values_);
}

void TextArgument::describe(std::string& text) const {
  text += '"' + value_ + '"';
}

void describeInteger(std::string& text, int64_t value) {
  text += std::to_string(value);
}

void describeFloating(std::string& text, double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  text += buffer;
}

void describeType(std::string& text, aclDataType value) {
  text += typeName(value);
}

}  // namespace torch_npu::aten
