// Shared memory between the processes of a communicator: descriptors, mappings, sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace npu_emulator::hccl {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A whole shared file in this process's address space; readable and writable, absent in forked
// children.
class Mapping {
 public:
  Mapping(int fd, size_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

// Anonymous shared memory of `bytes` zero bytes; pages exist once they are touched.
Descriptor createSegment(const char* name, size_t bytes);

// The device memory behind `fd`, mapped once in this process however many communicators use it.
std::shared_ptr<Mapping> mapDeviceMemory(int fd);

// A counter that threads of several processes sleep on. A waiter reads `value()`, then looks at
// what it waits for, then sleeps until the counter has moved on from that value; who changes what
// is waited for rings afterwards. Lives in shared memory, so it has no constructor: zero is its
// start.
class Bell {
 public:
  uint32_t value() const { return counter_.load(std::memory_order_acquire); }
  void ring(int waiters = kEveryone);
  void sleep(uint32_t seen, std::chrono::nanoseconds atMost);

  static constexpr int kEveryone = 0x7fffffff;

 private:
  std::atomic<uint32_t> counter_;
  std::atomic<uint32_t> sleepers_;  // saves the system call when nobody sleeps
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(Bell) == 8);

// Note [Yield before sleep]
// With more ranks than cores a peer is usually runnable on this very core, and one or two
// sched_yield let it run for a third of what a futex round trip costs. Beside other busy processes
// a yield costs a whole time slice instead, so each is timed, and after a slow one this thread
// sleeps at once for the next 64 waits, then 128, up to 4096.
class YieldBudget {
 public:
  // Yields if that is worth trying; false: sleep now.
  bool spend();
  static YieldBudget forWait();

 private:
  int left_ = 0;
};

// Processors that this process may run on.
int availableCores();

}  // namespace npu_emulator::hccl
