// Kernels over lists: the kernel of one tensor, once for each entry.
#pragma once

#include <c10/util/irange.h>

#include <type_traits>

#include "emulator/ops/Kernel.h"

namespace npu_emulator::ops {

// Refuses lists of different lengths.
class ListLength {
 public:
  template <class Value>
  void add(const Value&) {}
  void add(const Tensors& list) { check(list.size()); }
  void add(const Scalars& list) { check(list.size()); }

  std::size_t get() const { return length_.value_or(0); }

 private:
  void check(std::size_t length) {
    if (length_ && *length_ != length) {
      refuse(
          "the lists have " + std::to_string(*length_) + " and " + std::to_string(length) +
          " entries, expected as many");
    }
    length_ = length;
  }

  std::optional<std::size_t> length_;
};

template <class Value>
const Value& entry(const Value& value, std::size_t) { return value; }
inline const Tensor& entry(const Tensors& list, std::size_t i) {
  if (!list[i].defined()) {
    throw Refusal{kParamNull, "entry " + std::to_string(i) + " of a list is a null pointer"};
  }
  return list[i];
}
inline const Scalar& entry(const Scalars& list, std::size_t i) { return list[i]; }

// A tensor of one element stands for a number that is known on the device only.
template <class Value>
const Value& known(const Value& value) { return value; }
inline Scalar known(const Tensor& value) { return value.item(); }
template <class Value>
const Value& assumed(const Value& value) { return value; }
inline Scalar assumed(const Tensor& value) {
  if (value.numel() != 1) {
    refuse(
        "the scalar is a tensor of " + std::to_string(value.numel()) + " elements, expected one");
  }
  return 1;
}

template <class Kernel, class... Arguments>
Work eachOf(Kernel kernel, const Arguments&... arguments) {
  ListLength length;
  (length.add(arguments), ...);
  std::vector<Work> works;
  works.reserve(length.get());
  for (const std::size_t i : c10::irange(length.get())) {
    works.push_back(kernel(entry(arguments, i)...));
  }
  return [works = std::move(works)] {
    for (const Work& work : works) {
      if (work) {
        work();
      }
    }
  };
}

// Lists are taken entry by entry, everything else goes to each call as it is.
template <class Kernel, class... Arguments>
Work each(Kernel kernel, Arguments... arguments) {
  if constexpr ((std::is_same_v<Arguments, Tensor> || ...)) {
    eachOf(kernel, assumed(arguments)...);  // the checks do not depend on the number
    return [=] { eachOf(kernel, known(arguments)...)(); };
  } else {
    return eachOf(kernel, arguments...);
  }
}

}  // namespace npu_emulator::ops
