// DistributedDataParallel's clock for npu: events on the stream, so that it reads device time.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

#include "runtime/Device.h"
#include "runtime/Event.h"

namespace torch_npu::distributed {
namespace {

class ReducerTimer : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device device) : device_(device.index()) {}

  void record(Event event) override {
    // The host's time too: getTimestamp() reads it.
    Timer::record(event);
    DeviceScope scope(device_);
    eventOf(event).record(getCurrentStream(device_));
  }

  // Nanoseconds; nothing if one of the two was not recorded.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const NPUEvent& first = eventOf(start);
    const NPUEvent& last = eventOf(end);
    if (!first.isCreated() || !last.isCreated()) return std::nullopt;
    DeviceScope scope(device_);
    first.synchronize();
    last.synchronize();
    const float milliseconds = first.elapsedTime(last);
    // Negative when the end is of the iteration before.
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  }

 private:
  static constexpr size_t kEvents = 5;

  NPUEvent& eventOf(Event event) { return events_.at(static_cast<size_t>(event)); }

  int device_;
  std::array<NPUEvent, kEvents> events_{
      NPUEvent(true), NPUEvent(true), NPUEvent(true), NPUEvent(true), NPUEvent(true)};
};

}  // namespace
}  // namespace torch_npu::distributed

namespace c10d {

// The macro finds its types in the registry's namespace only.
using torch_npu::distributed::ReducerTimer;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, ReducerTimer)

}  // namespace c10d
