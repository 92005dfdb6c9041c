#include "aten/Workspace.h"

#include "runtime/CachingAllocator.h"

namespace torch_npu::aten {

c10::DataPtr Workspace::allocate(uint64_t bytes, const NPUStream& stream) {
  return allocateOnStream(bytes, stream);
}

}  // namespace torch_npu::aten
