// Note [Dry runs]
// Only ATen's CPU kernels know which data types they compute with, and they say so when they run.
// That is too late: CANN refuses a type while it plans, a kernel that fails on the stream costs the
// device. So the first call of an operator with a combination of types is also computed at once, on
// host tensors of the same shapes, and refused if ATen has no kernel for the types. Other failures
// of a dry run mean nothing, because the values are not those of the call. Calls with more than
// kDryRunElements are not tried; for them a missing kernel shows on the stream.
#pragma once

#include <c10/util/FunctionRef.h>

#include <mutex>
#include <type_traits>
#include <unordered_set>

#include "emulator/ops/Kernel.h"

namespace npu_emulator::ops {

inline constexpr int64_t kDryRunElements = 1 << 16;

// The types of a call's arguments, and how many elements they have.
class CallTypes {
 public:
  void add(const Tensor& tensor);
  void add(const OptionalTensor& tensor) { tensor ? add(*tensor) : mix(kAbsent); }
  void add(const Scalar& scalar) { mix(static_cast<uint64_t>(scalar.type())); }
  void add(const OptionalScalar& scalar) { scalar ? add(*scalar) : mix(kAbsent); }
  void add(const Tensors& tensors);
  void add(ScalarType type) { mix(static_cast<uint64_t>(type)); }
  template <class Other>
  void add(const Other&) {}  // has no data type

  uint64_t hash() const noexcept { return hash_; }
  int64_t elements() const noexcept { return elements_; }

 private:
  static constexpr uint64_t kAbsent = 255;
  void mix(uint64_t value) noexcept { hash_ = (hash_ ^ (value + 1)) * 0x100000001b3ull; }  // FNV-1a

  uint64_t hash_ = 0xcbf29ce484222325ull;
  int64_t elements_ = 0;
};

// Combinations of types that an operator is known to compute with.
class KnownTypes {
 public:
  bool contains(uint64_t hash);
  void insert(uint64_t hash);

 private:
  std::mutex mutex_;
  std::unordered_set<uint64_t> hashes_;
};

// A host tensor of the same shape and type, zeros for integers, which are indices, else ones.
Tensor standIn(const Tensor& tensor);
inline OptionalTensor standIn(const OptionalTensor& tensor) {
  return tensor ? OptionalTensor(standIn(*tensor)) : tensor;
}
Tensors standIn(const Tensors& tensors);
template <class Other>
const Other& standIn(const Other& other) {
  return other;
}

// Refuses if what `make` returns has no kernel for its types.
void dryRun(c10::function_ref<Work()> make);

// The work of one call of a kernel, after a dry run where one is due.
template <class... Params>
Work plannedWork(
    KnownTypes& known, Work (*kernel)(Params...),
    const std::type_identity_t<Params>&... arguments) {
  Work work = kernel(arguments...);
  // A Resizable writes the shape of its result to the caller's handle.
  if constexpr (!(std::is_same_v<Params, Resizable> || ...)) {
    CallTypes types;
    (types.add(arguments), ...);
    if (work && types.elements() <= kDryRunElements && !known.contains(types.hash())) {
      dryRun([&] { return kernel(standIn(arguments)...); });
      known.insert(types.hash());
    }
  }
  return work;
}

}  // namespace npu_emulator::ops
