// Storage of device tensors: plain c10::StorageImpl over the caching allocator.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace torch_npu {

// Gives the storage `bytes` bytes of new memory on its device, keeping the contents that fit; 0
// frees it. The copy is enqueued on the current stream of that device.
void resizeStorage(c10::StorageImpl& storage, size_t bytes);

}  // namespace torch_npu
