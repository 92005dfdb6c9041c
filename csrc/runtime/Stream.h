// Streams of the device, as values. The device's own streams are made when first used and never
// destroyed before finalize(): torch copies stream values freely and tells nobody when the last is
// gone.
#pragma once

#include <c10/core/Stream.h>

#include "cann/abi/acl.h"

namespace torch_npu {

// Note [Stream ids]
// 0 is the device's default stream. Else the three lowest bits say which kind: 1 pool, 2 pool of
// high priority (index in the bits above), 3 a stream made elsewhere, 4 a stream of createStream(),
// 5 the same of high priority (the handle itself: handles are at least 8-byte aligned).
class NPUStream {
 public:
  // Throws c10::TypeError if `stream` is of another device type.
  explicit NPUStream(c10::Stream stream);

  // CANN's handle, created at first use. The thread's current device stays what it was; if that is
  // the stream's device, its context is current afterwards and the handle can be used at once. Else
  // enter a DeviceScope first: CANN wants the stream's context to be current.
  aclrtStream handle() const;

  c10::StreamId id() const noexcept { return stream_.id(); }
  int deviceIndex() const noexcept { return stream_.device_index(); }
  c10::Device device() const noexcept { return stream_.device(); }
  c10::Stream unwrap() const noexcept { return stream_; }
  operator c10::Stream() const noexcept { return stream_; }

  // True when all work enqueued so far is done. Throws if that work failed.
  bool query() const;
  void synchronize() const;
  // -1 high, 0 normal: lower is more urgent, as for torch.Stream.
  int priority() const noexcept;
  // Whether any work can ever have been enqueued: false for a stream whose handle nobody asked for.
  bool isCreated() const noexcept;

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return stream_ != other.stream_; }

 private:
  c10::Stream stream_;
};

// device -1: the current one. Each thread has its own current stream per device, at first the
// default.
NPUStream getCurrentStream(int device = -1);
NPUStream getDefaultStream(int device = -1);
// Round robin over STREAMS_PER_DEVICE streams per priority.
NPUStream getStreamFromPool(bool high = false, int device = -1);
// priority < 0: high
NPUStream getNewStream(int device = -1, int priority = 0);
// A stream outside the pools, which nobody else gets. Made at once, and like all never destroyed:
// whoever needs such streams again and again keeps them. priority < 0: high
NPUStream createStream(int device, int priority = 0);
// Wraps a handle made by other code, which keeps owning it.
NPUStream getExternalStream(aclrtStream handle, int device = -1);
// Changes the thread's current stream on the stream's device; leaves the current device alone.
void setCurrentStream(NPUStream stream);
// Throws c10::ValueError for an id that no stream has.
NPUStream streamFromId(c10::StreamId id, int device);

// Makes the stream and its device current until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(NPUStream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  int previousDevice_;
  NPUStream previousStream_;  // of the guarded stream's device
};

}  // namespace torch_npu
