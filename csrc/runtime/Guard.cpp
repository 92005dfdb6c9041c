// What torch's device-neutral code (guards, torch.Stream, torch.Event, autograd, futures) asks of
// us.
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <memory>

#include "runtime/CachingAllocator.h"
#include "runtime/Device.h"
#include "runtime/Event.h"
#include "runtime/Stream.h"

namespace torch_npu {
namespace {

c10::Device npu(int index) {
  return c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index));
}

// torch keeps events as void*: ours point to an NPUEvent on the heap.
NPUEvent& eventOf(void* event) {
  return *static_cast<NPUEvent*>(event);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    return npu(torch_npu::exchangeDevice(checkedIndex(device)));
  }
  c10::Device getDevice() const override { return npu(currentDevice()); }
  void setDevice(c10::Device device) const override { torch_npu::setDevice(checkedIndex(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    torch_npu::uncheckedSetDevice(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(torch_npu::deviceCount());
  }

  c10::Stream getStream(c10::Device device) const override {
    return getCurrentStream(checkedIndex(device)).unwrap();
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return torch_npu::getDefaultStream(checkedIndex(device)).unwrap();
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool isHighPriority) const override {
    return getStreamFromPool(isHighPriority, checkedIndex(device)).unwrap();
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return torch_npu::getNewStream(checkedIndex(device), priority).unwrap();
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const NPUStream previous = getCurrentStream(stream.device_index());
    setCurrentStream(NPUStream(stream));
    return previous.unwrap();
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return NPUStream(stream).handle();
  }
  bool queryStream(const c10::Stream& stream) const override { return NPUStream(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    NPUStream(stream).synchronize();
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK_VALUE(device == -1 || device == stream.device_index(),
                      "the event is of npu:", static_cast<int>(device),
                      " and cannot be recorded on ", stream);
    if (*event != nullptr) return eventOf(*event).record(NPUStream(stream));
    auto made = std::make_unique<NPUEvent>(flag == c10::EventFlag::BACKEND_DEFAULT);
    made->record(NPUStream(stream));
    *event = made.release();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) eventOf(event).block(NPUStream(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || eventOf(event).query(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) eventOf(event).synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<NPUEvent*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK_VALUE(start != nullptr && end != nullptr,
                      "elapsed_time needs two events that were recorded");
    return eventOf(start).elapsedTime(eventOf(end));
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    torch_npu::synchronizeDevice(device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    recordStream(pointer, NPUStream(stream));
  }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& has = capability.capability_data.supported_scalar_types;
    has.has_Bool = has.has_Byte = has.has_Char = has.has_Short = has.has_Int = has.has_Long = 1;
    has.has_Half = has.has_BFloat16 = has.has_Float = has.has_Double = 1;
    has.has_ComplexFloat = has.has_ComplexDouble = 1;
    return capability;
  }

 private:
  static int checkedIndex(c10::Device device) {
    TORCH_CHECK_TYPE(device.type() == c10::kPrivateUse1, "expected an NPU device, got ", device);
    return device.index();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace
}  // namespace torch_npu
