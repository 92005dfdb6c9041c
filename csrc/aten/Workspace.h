// Scratch memory of one aclnn call. Taken on the call's stream and given back as soon as the call is
// enqueued: the allocator reuses it only for work that comes later on the same stream.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

#include "runtime/Stream.h"

namespace torch_npu::aten {

class Workspace {
 public:
  Workspace(uint64_t bytes, const NPUStream& stream) {
    if (bytes != 0) {
      memory_ = allocate(bytes, stream);
    }
  }
  void* get() const {
    return memory_.get();
  }

 private:
  static c10::DataPtr allocate(uint64_t bytes, const NPUStream& stream);

  c10::DataPtr memory_;
};

}  // namespace torch_npu::aten
