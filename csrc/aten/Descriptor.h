// Arguments of an aclnn call, captured by value: a call owns its metadata and refers to nothing of
// its caller, so that it may run later than the line that made it. Each class knows how to make the
// object that CANN takes (create) and how to name itself in an error message (describe).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cann/OpApi.h"

namespace torch_npu::aten {

// ACL_DT_UNDEFINED for types that CANN does not have.
aclDataType toAclDataType(at::ScalarType type);

// As toAclDataType, but raises TypeError naming the type where CANN has none.
aclDataType checkedAclDataType(at::ScalarType type);

// Whether the memory holds the conjugate or the negative of what the tensor means. Matrix products
// get such tensors as they are: torch's own kernels for them read the mark.
inline bool isMarked(const c10::TensorImpl* tensor) {
  constexpr c10::DispatchKeySet kMarks({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  return tensor->key_set().has_any(kMarks);
}

[[noreturn]] void throwMarked(const at::Tensor& tensor);
[[noreturn]] void throwWrongDevice(const at::Tensor& tensor, c10::DeviceIndex expected);
[[noreturn]] void throwNoMemory(const at::Tensor& tensor);
[[noreturn]] void throwOutOfRange(int64_t value, int64_t lowest, int64_t highest);

template <auto& Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* object) const noexcept {
    Destroy(object);
  }
};
using TensorHandle = std::unique_ptr<aclTensor, Destroyer<cann::aclDestroyTensor>>;
using TensorListHandle = std::unique_ptr<aclTensorList, Destroyer<cann::aclDestroyTensorList>>;
using ScalarHandle = std::unique_ptr<aclScalar, Destroyer<cann::aclDestroyScalar>>;
using ScalarListHandle = std::unique_ptr<aclScalarList, Destroyer<cann::aclDestroyScalarList>>;
using IntArrayHandle = std::unique_ptr<aclIntArray, Destroyer<cann::aclDestroyIntArray>>;
using BoolArrayHandle = std::unique_ptr<aclBoolArray, Destroyer<cann::aclDestroyBoolArray>>;

class TensorArgument {
 public:
  // An absent tensor: CANN gets a null pointer.
  TensorArgument() = default;
  // An undefined tensor is absent. Any other must be on device `device`.
  TensorArgument(const at::Tensor& tensor, c10::DeviceIndex device) {
    if (tensor.defined()) {
      capture(tensor, device);
    }
  }
  TensorArgument(const std::optional<at::Tensor>& tensor, c10::DeviceIndex device) {
    if (tensor.has_value() && tensor->defined()) {
      capture(*tensor, device);
    }
  }
  TensorArgument(std::nullopt_t, c10::DeviceIndex) {}

  TensorHandle create() const;
  void describe(std::string& text) const;

 private:
  void capture(const at::Tensor& tensor, c10::DeviceIndex device) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (impl->device() != c10::Device(c10::DeviceType::PrivateUse1, device)) [[unlikely]] {
      throwWrongDevice(tensor, device);
    }
    if (isMarked(impl)) [[unlikely]] {
      throwMarked(tensor);
    }
    const c10::Storage& storage = impl->unsafe_storage();
    base_ = storage ? storage.unsafeGetStorageImpl()->mutable_data() : nullptr;
    if (base_ == nullptr && impl->numel() != 0) [[unlikely]] {
      throwNoMemory(tensor);
    }
    dtype_ = checkedAclDataType(tensor.scalar_type());
    storageElements_ =
        storage ? static_cast<int64_t>(storage.nbytes() / impl->dtype().itemsize()) : 0;
    offset_ = impl->storage_offset();
    const c10::IntArrayRef sizes = impl->sizes();
    const c10::IntArrayRef strides = impl->strides();
    layout_.append(sizes.begin(), sizes.end());
    layout_.append(strides.begin(), strides.end());
  }

  void* base_ = nullptr;  // of the storage, as aclCreateTensor takes it
  int64_t offset_ = 0;    // in elements, as storageElements_
  int64_t storageElements_ = 0;
  aclDataType dtype_ = ACL_DT_UNDEFINED;
  c10::SmallVector<int64_t, 10> layout_;  // sizes, then strides
};

class TensorListArgument {
 public:
  template <class Tensors>
    requires(std::is_convertible_v<const Tensors&, at::TensorList>)
  TensorListArgument(const Tensors& tensors, c10::DeviceIndex device) {
    capture(at::TensorList(tensors), device);
  }
  TensorListArgument(const at::ITensorListRef& tensors, c10::DeviceIndex device);
  TensorListArgument(std::nullopt_t, c10::DeviceIndex) {}

  // An empty list is a null pointer. The list owns its members.
  TensorListHandle create() const;
  void describe(std::string& text) const;

 private:
  void capture(at::TensorList tensors, c10::DeviceIndex device);

  c10::SmallVector<TensorArgument, 0> tensors_;
};

class ScalarArgument {
 public:
  ScalarArgument(const c10::Scalar& value, c10::DeviceIndex) : value_(value), present_(true) {}
  ScalarArgument(const std::optional<c10::Scalar>& value, c10::DeviceIndex)
      : value_(value.has_value() ? *value : c10::Scalar()), present_(value.has_value()) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  ScalarArgument(T value, c10::DeviceIndex) : value_(value), present_(true) {}
  ScalarArgument(std::nullopt_t, c10::DeviceIndex) {}

  ScalarHandle create() const;
  void describe(std::string& text) const;

 private:
  c10::Scalar value_;
  bool present_ = false;
};

class ScalarListArgument {
 public:
  ScalarListArgument(at::ArrayRef<c10::Scalar> values, c10::DeviceIndex)
      : values_(values.begin(), values.end()) {}

  ScalarListHandle create() const;
  void describe(std::string& text) const;

 private:
  c10::SmallVector<c10::Scalar, 0> values_;
};

class IntArrayArgument {
 public:
  template <class Values>
    requires(std::is_convertible_v<const Values&, at::IntArrayRef>)
  IntArrayArgument(const Values& values, c10::DeviceIndex) : present_(true) {
    const at::IntArrayRef list(values);
    values_.assign(list.begin(), list.end());
  }
  IntArrayArgument(const at::OptionalIntArrayRef& values, c10::DeviceIndex) {
    if (values.has_value()) {
      values_.assign(values->begin(), values->end());
      present_ = true;
    }
  }
  IntArrayArgument(std::nullopt_t, c10::DeviceIndex) {}

  IntArrayHandle create() const;
  void describe(std::string& text) const;

 private:
  c10::SmallVector<int64_t, 6> values_;
  bool present_ = false;
};

class BoolArrayArgument {
 public:
  template <size_t N>
  BoolArrayArgument(const std::array<bool, N>& values, c10::DeviceIndex)
      : values_(values.begin(), values.end()) {}

  BoolArrayHandle create() const;
  void describe(std::string& text) const;

 private:
  c10::SmallVector<bool, 8> values_;
};

class TextArgument {
 public:
  TextArgument(std::string_view value, c10::DeviceIndex) : value_(value) {}

  struct Handle {
    const std::string* text;
    // CANN declares some of its strings char* and reads them only.
    char* get() const {
      return const_cast<char*>(text->c_str());
    }
  };
  Handle create() const {
    return {&value_};
  }
  void describe(std::string& text) const;

 private:
  std::string value_;
};

void describeInteger(std::string& text, int64_t value);
void describeFloating(std::string& text, double value);
void describeType(std::string& text, aclDataType value);

// A number, flag or type passed by value. T is the C type of the parameter.
template <class T>
class ValueArgument {
 public:
  ValueArgument(T value, c10::DeviceIndex) : value_(value) {}

  template <class From>
    requires(!std::is_same_v<From, T>)
  ValueArgument(const From& value, c10::DeviceIndex) : value_(convert(value)) {}

  struct Handle {
    T value;
    T get() const {
      return value;
    }
  };
  Handle create() const {
    return {value_};
  }
  void describe(std::string& text) const {
    if constexpr (std::is_same_v<T, aclDataType>) {
      describeType(text, value_);
    } else if constexpr (std::is_floating_point_v<T>) {
      describeFloating(text, value_);
    } else if constexpr (std::is_same_v<T, bool>) {
      text += value_ ? "true" : "false";
    } else {
      describeInteger(text, static_cast<int64_t>(value_));
    }
  }

 private:
  template <class From>
  static T convert(const From& value) {
    if constexpr (std::is_same_v<T, aclDataType>) {
      static_assert(std::is_same_v<From, at::ScalarType>, "an aclDataType comes from a ScalarType");
      return checkedAclDataType(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      static_assert(std::is_same_v<From, bool>, "a flag comes from a bool only");
      return value;
    } else if constexpr (std::is_floating_point_v<T>) {
      static_assert(
          std::is_arithmetic_v<From> && !std::is_same_v<From, bool>, "a number is expected here");
      return static_cast<T>(value);
    } else {
      static_assert(
          std::is_integral_v<From> && !std::is_same_v<From, bool>, "an integer is expected here");
      if (!std::in_range<T>(value)) [[unlikely]] {
        throwOutOfRange(
            static_cast<int64_t>(value), static_cast<int64_t>(std::numeric_limits<T>::min()),
            static_cast<int64_t>(std::numeric_limits<T>::max()));
      }
      return static_cast<T>(value);
    }
  }

  T value_;
};

// The class that captures a parameter of C type P.
template <class P>
struct ArgumentOf {
  static_assert(!std::is_pointer_v<P>, "no argument class for this pointer type");
  using type = ValueArgument<std::remove_const_t<P>>;
};
template <>
struct ArgumentOf<aclTensor*> {
  using type = TensorArgument;
};
template <>
struct ArgumentOf<aclTensorList*> {
  using type = TensorListArgument;
};
template <>
struct ArgumentOf<aclScalar*> {
  using type = ScalarArgument;
};
template <>
struct ArgumentOf<aclScalarList*> {
  using type = ScalarListArgument;
};
template <>
struct ArgumentOf<aclIntArray*> {
  using type = IntArrayArgument;
};
template <>
struct ArgumentOf<aclBoolArray*> {
  using type = BoolArrayArgument;
};
template <>
struct ArgumentOf<char*> {
  using type = TextArgument;
};
template <class T>
struct ArgumentOf<const T*> : ArgumentOf<T*> {};

template <class P>
using Argument = typename ArgumentOf<P>::type;

}  // namespace torch_npu::aten
