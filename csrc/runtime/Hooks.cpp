// What torch asks of an accelerator before or beside any tensor: presence, generators, pinned
// memory.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/util/Exception.h>

#include "cann/Acl.h"
#include "runtime/Device.h"
#include "runtime/Generator.h"
#include "runtime/HostAllocator.h"
#include "runtime/Storage.h"

namespace torch_npu {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return torch_npu::deviceCount() > 0; }
  // Autograd asks for every device when its threads start: a true here makes it use the device.
  bool hasPrimaryContext(c10::DeviceIndex device) const override {
    return torch_npu::hasPrimaryContext(device);
  }
  void init() const override { initialize(); }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(torch_npu::deviceCount());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { setDevice(device); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(currentDevice());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(torch_npu::exchangeDevice(device));
  }
  // "Maybe": without making a context where there is none, which is how exchangeDevice works
  // anyway.
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return torch_npu::getDefaultGenerator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return createGenerator(device);
  }

  at::Allocator* getPinnedMemoryAllocator() const override { return hostAllocator(); }
  bool isPinnedPtr(const void* data) const override { return isPinned(data); }

  at::Device getDeviceFromPtr(void* data) const override {
    useDevice();
    aclrtPtrAttributes attributes{};
    cann::aclrtPointerGetAttributes.check(data, &attributes);
    TORCH_CHECK_VALUE(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE,
                      "expected a pointer to NPU memory, got ", data, ", which is not on a device");
    return at::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(attributes.location.id));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t newsize) const override {
    resizeStorage(*storage.unsafeGetStorageImpl(), newsize);
  }
};

const bool kRegistered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace torch_npu
