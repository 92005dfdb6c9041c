// Events: a mark in a stream that streams and hosts can wait for. Handles are reused.
#pragma once

#include "cann/abi/acl.h"
#include "runtime/Stream.h"

namespace torch_npu {

// Not thread-safe: one owner, as torch.Event. The device is that of the first stream recorded on.
class NPUEvent {
 public:
  // Nothing is created before the first record().
  explicit NPUEvent(bool timing = false) noexcept : timing_(timing) {}
  ~NPUEvent();
  NPUEvent(NPUEvent&& other) noexcept;
  NPUEvent& operator=(NPUEvent&& other) noexcept;
  NPUEvent(const NPUEvent&) = delete;
  NPUEvent& operator=(const NPUEvent&) = delete;

  // Marks the present end of the stream. A later record does not move those that wait already.
  // Throws c10::ValueError if the stream is on another device than the event.
  void record(const NPUStream& stream);
  // Later work of the stream (of any device) waits for the mark. Nothing if never recorded.
  void block(const NPUStream& stream) const;
  // True if never recorded, or if the mark was reached.
  bool query() const;
  void synchronize() const;
  // Milliseconds from this mark to `end`; both must be made with timing, recorded and reached.
  float elapsedTime(const NPUEvent& end) const;

  bool isCreated() const noexcept { return handle_ != nullptr; }
  // -1 before the first record
  int deviceIndex() const noexcept { return device_; }
  aclrtEvent handle() const noexcept { return handle_; }

 private:
  void release() noexcept;

  aclrtEvent handle_ = nullptr;
  int device_ = -1;
  bool timing_;
};

}  // namespace torch_npu
