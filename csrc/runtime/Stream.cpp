#include "runtime/Stream.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>

#include "cann/Acl.h"
#include "cann/Env.h"
#include "runtime/Device.h"

namespace torch_npu {
namespace {

enum Kind : c10::StreamId {
  kDefault = 0,
  kPool = 1,
  kHighPool = 2,
  kExternal = 3,
  kOwned = 4,
  kHighOwned = 5
};
constexpr int kKindBits = 3;
constexpr c10::StreamId kKindMask = (1 << kKindBits) - 1;
constexpr int kMaxPool = 32;

struct DeviceStreams {
  std::mutex mutex;  // guards creation; CANN is called while it is held
  std::atomic<aclrtStream> standard{nullptr};
  std::array<std::array<std::atomic<aclrtStream>, kMaxPool>, 2> pool{};  // by priority
  std::array<std::atomic<uint32_t>, 2> next{};
};

// Handles belong to CANN and go with it: nothing is destroyed here.
constinit std::array<DeviceStreams, kMaxDevices> gStreams{};
static_assert(std::is_trivially_destructible_v<DeviceStreams>);

// The thread's current stream on each device.
constinit thread_local std::array<c10::StreamId, kMaxDevices> tStreams{};

Kind kindOf(c10::StreamId id) {
  return static_cast<Kind>(id & kKindMask);
}

// Whether the id holds the handle itself.
bool holdsHandle(c10::StreamId id) {
  return kindOf(id) >= kExternal && kindOf(id) <= kHighOwned;
}

int poolSize() {
  static const int size = static_cast<int>(cann::env::integer("STREAMS_PER_DEVICE", 8, kMaxPool));
  return size;
}

// Not for streams whose id holds the handle.
std::atomic<aclrtStream>& slotOf(c10::StreamId id, int device) {
  DeviceStreams& streams = gStreams[device];
  if (id == kDefault) return streams.standard;
  return streams.pool[kindOf(id) == kHighPool][id >> kKindBits];
}

// The device must be current.
aclrtStream makeHandle() {
  aclrtStream handle = nullptr;
  // CANN documents the priority as reserved, 0, on training products, so both pools ask for the
  // same.
  cann::aclrtCreateStreamWithConfig.check(&handle, 0,
                                          ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
  if (cann::aclrtSetStreamFailureMode.available()) {
    // A failed task ends the stream instead of letting later work run on wrong data: the next
    // synchronise reports it.
    cann::aclrtSetStreamFailureMode.check(handle, ACL_STOP_ON_FAILURE);
  }
  return handle;
}

aclrtStream create(std::atomic<aclrtStream>& slot, int device) {
  DeviceScope scope(device);
  std::lock_guard lock(gStreams[device].mutex);
  aclrtStream handle = slot.load(std::memory_order_relaxed);
  if (handle != nullptr) return handle;
  handle = makeHandle();
  slot.store(handle, std::memory_order_release);
  return handle;
}

c10::Stream makeStream(c10::StreamId id, int device) {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device)), id);
}

}  // namespace

NPUStream::NPUStream(c10::Stream stream) : stream_(stream) {
  TORCH_CHECK_TYPE(stream.device_type() == c10::kPrivateUse1,
                   "expected a stream of an NPU, got one of ", stream.device());
}

aclrtStream NPUStream::handle() const {
  aclrtStream handle;
  if (holdsHandle(id())) {
    handle = reinterpret_cast<aclrtStream>(id() & ~kKindMask);
  } else {
    std::atomic<aclrtStream>& slot = slotOf(id(), deviceIndex());
    handle = slot.load(std::memory_order_acquire);
    if (handle == nullptr) [[unlikely]]
      handle = create(slot, deviceIndex());
  }
  if (deviceIndex() == currentDevice()) [[likely]]
    useDevice();
  return handle;
}

bool NPUStream::isCreated() const noexcept {
  return holdsHandle(id()) ||
         slotOf(id(), deviceIndex()).load(std::memory_order_acquire) != nullptr;
}

bool NPUStream::query() const {
  if (!isCreated()) return true;
  DeviceScope scope(deviceIndex());
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  cann::aclrtStreamQuery.check(handle(), &status);
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void NPUStream::synchronize() const {
  if (!isCreated()) return;
  const std::chrono::milliseconds limit = syncTimeout();
  DeviceScope scope(deviceIndex());
  if (limit.count() > 0 && cann::aclrtSynchronizeStreamWithTimeout.available()) {
    cann::aclrtSynchronizeStreamWithTimeout.check(handle(), static_cast<int32_t>(limit.count()));
  } else {
    cann::aclrtSynchronizeStream.check(handle());
  }
}

int NPUStream::priority() const noexcept {
  return kindOf(id()) == kHighPool || kindOf(id()) == kHighOwned ? -1 : 0;
}

NPUStream getCurrentStream(int device) {
  device = checkedDevice(device);
  return NPUStream(makeStream(tStreams[device], device));
}

NPUStream getDefaultStream(int device) {
  return NPUStream(makeStream(kDefault, checkedDevice(device)));
}

NPUStream getStreamFromPool(bool high, int device) {
  device = checkedDevice(device);
  const uint32_t index = gStreams[device].next[high].fetch_add(1, std::memory_order_relaxed) %
                         poolSize();
  const c10::StreamId id = static_cast<c10::StreamId>(index) << kKindBits |
                           (high ? kHighPool : kPool);
  return NPUStream(makeStream(id, device));
}

NPUStream getNewStream(int device, int priority) {
  return getStreamFromPool(priority < 0, device);
}

NPUStream createStream(int device, int priority) {
  device = checkedDevice(device);
  DeviceScope scope(device);
  const auto bits = reinterpret_cast<c10::StreamId>(makeHandle());
  TORCH_INTERNAL_ASSERT((bits & kKindMask) == 0, "CANN returned an unaligned stream handle");
  return NPUStream(makeStream(bits | (priority < 0 ? kHighOwned : kOwned), device));
}

NPUStream getExternalStream(aclrtStream handle, int device) {
  const auto bits = reinterpret_cast<c10::StreamId>(handle);
  TORCH_CHECK_VALUE(handle != nullptr && (bits & kKindMask) == 0,
                    "an external stream needs the handle that CANN returned, got ", handle);
  return NPUStream(makeStream(bits | kExternal, checkedDevice(device)));
}

void setCurrentStream(NPUStream stream) {
  tStreams[checkedDevice(stream.deviceIndex())] = stream.id();
}

NPUStream streamFromId(c10::StreamId id, int device) {
  device = checkedDevice(device);
  const c10::StreamId index = id >> kKindBits;
  const bool pooled = kindOf(id) == kPool || kindOf(id) == kHighPool;
  const bool known = id == kDefault || (pooled ? index >= 0 && index < poolSize()
                                               : holdsHandle(id) && index != 0);
  TORCH_CHECK_VALUE(known, "there is no stream with id ", id, " on npu:", device);
  return NPUStream(makeStream(id, device));
}

StreamGuard::StreamGuard(NPUStream stream)
    : previousDevice_(exchangeDevice(stream.deviceIndex())),
      previousStream_(getCurrentStream(stream.deviceIndex())) {
  setCurrentStream(stream);
}

StreamGuard::~StreamGuard() {
  tStreams[previousStream_.deviceIndex()] = previousStream_.id();
  uncheckedSetDevice(previousDevice_);
}

}  // namespace torch_npu
