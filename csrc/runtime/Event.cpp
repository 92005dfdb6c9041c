#include "runtime/Event.h"

#include <c10/util/Exception.h>

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "cann/Acl.h"
#include "runtime/Device.h"

namespace torch_npu {
namespace {

// Note [Event reuse]
// A handle goes back here while others may still wait for its last mark. That is safe for events
// made by aclrtCreateEventExWithFlag: recording anew does not move those that wait already.
class EventPool {
 public:
  // Never destroyed: events die in static destructors too.
  static EventPool& instance() {
    static EventPool* pool = new EventPool;
    return *pool;
  }

  // The device's context must be current.
  aclrtEvent take(int device, bool timing) {
    {
      std::lock_guard lock(mutex_);
      std::vector<aclrtEvent>& idle = idle_[device][timing];
      if (!idle.empty()) {
        aclrtEvent event = idle.back();
        idle.pop_back();
        return event;
      }
    }
    aclrtEvent event = nullptr;
    cann::aclrtCreateEventExWithFlag.check(
        &event, timing ? ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC : ACL_EVENT_SYNC);
    return event;
  }

  void give(aclrtEvent event, int device, bool timing) {
    std::lock_guard lock(mutex_);
    idle_[device][timing].push_back(event);
  }

 private:
  std::mutex mutex_;  // guards idle_; no CANN call while held
  std::array<std::array<std::vector<aclrtEvent>, 2>, kMaxDevices> idle_;
};

}  // namespace

NPUEvent::~NPUEvent() {
  release();
}

NPUEvent::NPUEvent(NPUEvent&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      device_(std::exchange(other.device_, -1)),
      timing_(other.timing_) {}

NPUEvent& NPUEvent::operator=(NPUEvent&& other) noexcept {
  if (this != &other) {
    release();
    handle_ = std::exchange(other.handle_, nullptr);
    device_ = std::exchange(other.device_, -1);
    timing_ = other.timing_;
  }
  return *this;
}

void NPUEvent::release() noexcept {
  aclrtEvent handle = std::exchange(handle_, nullptr);
  // After finalize() and in a forked child the handle is CANN's no more.
  if (handle == nullptr || isFinalized() || isInBadFork()) return;
  EventPool::instance().give(handle, device_, timing_);
}

void NPUEvent::record(const NPUStream& stream) {
  TORCH_CHECK_VALUE(device_ == -1 || device_ == stream.deviceIndex(),
                    "the event is of npu:", device_,
                    " and cannot be recorded on a stream of npu:", stream.deviceIndex());
  DeviceScope scope(stream.deviceIndex());
  if (handle_ == nullptr) {
    handle_ = EventPool::instance().take(stream.deviceIndex(), timing_);
    device_ = stream.deviceIndex();
  }
  cann::aclrtRecordEvent.check(handle_, stream.handle());
}

void NPUEvent::block(const NPUStream& stream) const {
  if (handle_ == nullptr) return;
  DeviceScope scope(stream.deviceIndex());
  cann::aclrtStreamWaitEvent.check(stream.handle(), handle_);
}

bool NPUEvent::query() const {
  if (handle_ == nullptr) return true;
  DeviceScope scope(device_);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  cann::aclrtQueryEventStatus.check(handle_, &status);
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void NPUEvent::synchronize() const {
  if (handle_ == nullptr) return;
  DeviceScope scope(device_);
  cann::aclrtSynchronizeEvent.check(handle_);
}

float NPUEvent::elapsedTime(const NPUEvent& end) const {
  TORCH_CHECK_VALUE(timing_ && end.timing_,
                    "elapsed_time needs two events made with enable_timing=True");
  TORCH_CHECK_VALUE(isCreated() && end.isCreated(),
                    "elapsed_time needs two events that were recorded");
  TORCH_CHECK(
      query() && end.query(),
      "elapsed_time: the device has not reached both events yet; synchronize() the later first");
  DeviceScope scope(device_);
  float milliseconds = 0;
  cann::aclrtEventElapsedTime.check(&milliseconds, handle_, end.handle_);
  return milliseconds;
}

}  // namespace torch_npu
