// What the opaque handles of aclnn are made of. Shared by libnpu_emulator, which creates and
// destroys them, and libnpu_emulator_ops, which reads them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "emulator/Abi.h"

namespace npu_emulator {

// Status codes of aclnn calls.
inline constexpr aclnnStatus kParamNull = 161001;
inline constexpr aclnnStatus kParamInvalid = 161002;
inline constexpr aclnnStatus kInnerError = 561000;

inline constexpr std::size_t kLargestScalar = 16;  // bytes, COMPLEX128

// Bytes of one element; 0 for types narrower than a byte and for those that hold no numbers.
std::size_t elementSize(aclDataType type) noexcept;

}  // namespace npu_emulator

// A view of device memory. Counted: an operator whose result has a shape that depends on data keeps
// the handle until it has written that shape, while callers destroy theirs right after the launch.
struct aclTensor {
  std::atomic<int> references{1};
  aclDataType type;
  aclFormat format;
  void* storage;
  int64_t offset;  // elements from the start of the storage
  std::vector<int64_t> strides;
  std::vector<int64_t> storageSizes;

  std::vector<int64_t> sizes() const {
    std::lock_guard lock(mutex);
    return sizes_;
  }
  // For readers that hold the only access, as the planning of an operator does.
  const std::vector<int64_t>& plannedSizes() const noexcept { return sizes_; }
  void setSizes(std::vector<int64_t> sizes) {
    std::lock_guard lock(mutex);
    sizes_ = std::move(sizes);
  }

  void retain() noexcept { references.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }

 private:
  ~aclTensor() = default;

  mutable std::mutex mutex;  // guards sizes_: a kernel may write while the host reads
  std::vector<int64_t> sizes_;
};

struct aclScalar {
  aclDataType type;
  alignas(npu_emulator::kLargestScalar) std::array<std::byte, npu_emulator::kLargestScalar> value;
};

struct aclTensorList {
  std::vector<aclTensor*> members;  // owned; null stands for an absent tensor
};

struct aclScalarList {
  std::vector<aclScalar*> members;  // owned
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclBoolArray {
  std::vector<char> values;
};

// A validated call that waits to be enqueued: phase 1 makes it, phase 2 consumes it.
struct aclOpExecutor {
  const char* op;
  std::function<void()> work;
};
