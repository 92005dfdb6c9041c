#include "runtime/Storage.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "cann/Acl.h"
#include "runtime/CachingAllocator.h"
#include "runtime/Device.h"

namespace torch_npu {

void resizeStorage(c10::StorageImpl& storage, size_t bytes) {
  const c10::Device device = storage.device();
  TORCH_CHECK_TYPE(device.type() == c10::kPrivateUse1, "expected NPU storage, got storage on ",
                   device);
  TORCH_CHECK_VALUE(storage.resizable(),
                    "this storage cannot be resized: its memory belongs to other code");
  if (bytes == storage.nbytes()) return;
  const size_t kept = std::min(storage.nbytes(), bytes);
  if (bytes == 0) {
    storage.set_data_ptr_noswap(c10::DataPtr(nullptr, device));
    storage.set_nbytes(0);
    return;
  }
  const NPUStream stream = getCurrentStream(device.index());
  c10::DataPtr memory = allocateOnStream(bytes, stream);
  if (kept > 0) {
    DeviceScope scope(device.index());
    cann::aclrtMemcpyAsync.check(memory.get(), bytes, storage.data(), kept,
                                 ACL_MEMCPY_DEVICE_TO_DEVICE, stream.handle());
    // The old memory goes back at once and may belong to another stream than the copy's.
    recordStream(storage.data_ptr(), stream);
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.set_nbytes(bytes);
}

}  // namespace torch_npu
