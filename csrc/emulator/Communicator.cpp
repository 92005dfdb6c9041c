#include "emulator/Communicator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <system_error>

#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/Stream.h"

namespace npu_emulator::hccl {

using Clock = std::chrono::steady_clock;

namespace {

// Handles of this process. Never destroyed: tasks may end during exit.
struct Handles {
  std::mutex mutex;  // guards live; nothing else is locked under it
  std::map<HcclComm, std::shared_ptr<Communicator>> live;
};
Handles& handles() {
  static Handles& instance = *new Handles;
  return instance;
}

constexpr auto kQuiesceLimit = std::chrono::seconds(10);

}  // namespace

aclError streamError(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS:
      return ACL_SUCCESS;
    case HCCL_E_PARA:
    case HCCL_E_PTR:
      return ACL_ERROR_RT_PARAM_INVALID;
    case HCCL_E_REMOTE:
      return ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
    case HCCL_E_TIMEOUT:
      return ACL_ERROR_RT_TASK_TIMEOUT;
    case HCCL_E_SUSPENDING:
      return ACL_ERROR_RT_TASK_ABORT_STOP;
    default:
      return ACL_ERROR_RT_INTERNAL_ERROR;
  }
}

Failure currentFailure(const char* where) {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure(HCCL_E_MEMORY, std::string(where) + ": out of host memory");
  } catch (const std::system_error& error) {
    return Failure(HCCL_E_SYSCALL, std::string(where) + ": " + error.what());
  } catch (const std::exception& error) {
    return Failure(HCCL_E_INTERNAL, std::string(where) + ": " + error.what());
  }
}

Communicator::Communicator(Membership membership)
    : self_(std::move(membership)),
      segment_(self_.segment->data(), self_.ranks),
      sends_(self_.ranks),
      receives_(self_.ranks) {}

void Communicator::fail(HcclResult code, const std::string& text) noexcept {
  SegmentHeader& shared = header();
  uint32_t none = 0;
  if (shared.failureState.compare_exchange_strong(none, 1)) {
    shared.failureCode = code;
    const size_t length = std::min(text.size(), sizeof(shared.failureText) - 1);
    std::memcpy(shared.failureText, text.data(), length);
    shared.failureText[length] = '\0';
    shared.failureState.store(2, std::memory_order_seq_cst);
  }
  ringEveryone();
}

HcclResult Communicator::failure() const {
  if (!failed()) {
    return HCCL_SUCCESS;
  }
  // Whoever failed first is writing, which takes microseconds unless it was killed there.
  Bell& bell = header().engine;
  for (int i = 0; i < 100 && header().failureState.load(std::memory_order_acquire) != 2; ++i) {
    bell.sleep(bell.value(), std::chrono::milliseconds(10));
  }
  return header().failureState.load(std::memory_order_acquire) == 2
      ? static_cast<HcclResult>(header().failureCode)
      : HCCL_E_INTERNAL;
}

std::string Communicator::failureText() const {
  failure();
  if (header().failureState.load(std::memory_order_acquire) != 2) {
    return "communicator '" + name() + "' failed on a rank that ended before it could say why";
  }
  return header().failureText;
}

void Communicator::throwIfFailed() const {
  if (failed()) {
    throw Failure(failure(), failureText());
  }
  if (area().departure.load(std::memory_order_acquire) != Departure::Present) {
    throw Failure(HCCL_E_SUSPENDING, "communicator '" + name() + "' was destroyed on this rank");
  }
}

void Communicator::wait(Bell& bell, Condition& condition, std::chrono::nanoseconds nap) {
  YieldBudget yields = YieldBudget::forWait();
  const auto start = Clock::now();
  auto lastTick = start;
  // Registered once it sleeps, so that destroy() can say what was waited for.
  struct Registration {
    Communicator* communicator = nullptr;
    Condition* condition = nullptr;
    ~Registration() {
      if (communicator != nullptr) {
        std::lock_guard guard(communicator->blockedMutex_);
        std::erase(communicator->blocked_, condition);
      }
    }
  } registration;

  for (;;) {
    const uint32_t seen = bell.value();
    // Asked before ready(): what a rank did before it departed is visible to ready() then.
    std::optional<uint32_t> lost;
    if (header().departures.load(std::memory_order_acquire) != 0) {
      lost = condition.lostRank();
    }
    if (condition.ready()) {
      return;
    }
    throwIfFailed();
    if (taskCancelled()) {
      const std::string text = "rank " + std::to_string(rank()) +
          ": the stream was aborted while " + condition.describe();
      fail(HCCL_E_SUSPENDING, text);
      continue;
    }
    if (lost) {
      const Departure why = segment_.rank(*lost).departure.load(std::memory_order_acquire);
      fail(
          HCCL_E_REMOTE,
          "rank " + std::to_string(*lost) +
              (why == Departure::Exited ? " ended its process" : " destroyed its communicator") +
              " while rank " + std::to_string(rank()) + " needs it: " + condition.describe());
      continue;
    }
    if (yields.spend()) {
      continue;
    }
    if (registration.communicator == nullptr) {
      std::lock_guard guard(blockedMutex_);
      blocked_.push_back(&condition);
      registration.communicator = this;
      registration.condition = &condition;
    }
    bell.sleep(seen, nap);
    const auto now = Clock::now();
    if (now - lastTick >= kNap) {
      lastTick = now;
      condition.tick();
      if (self_.patience.count() > 0 && now - start >= self_.patience) {
        fail(
            HCCL_E_TIMEOUT,
            "no progress within " + std::to_string(self_.patience.count()) +
                " s (HCCL_EXEC_TIMEOUT) on rank " + std::to_string(rank()) + ": " +
                condition.describe());
      }
    }
  }
}

Communicator::Touch::Touch(Communicator& communicator) : communicator_(communicator) {
  communicator_.area().working.fetch_add(1, std::memory_order_seq_cst);
  // Sequentially consistent against fail(), which is followed by a look at `working`.
  allowed_ = communicator_.header().failureState.load(std::memory_order_seq_cst) == 0;
}

Communicator::Touch::~Touch() {
  communicator_.area().working.fetch_sub(1, std::memory_order_seq_cst);
  if (communicator_.failed()) {
    communicator_.header().engine.ring();
  }
}

void Communicator::quiesce() noexcept {
  const auto end = Clock::now() + kQuiesceLimit;
  Bell& bell = header().engine;
  for (;;) {
    const uint32_t seen = bell.value();
    bool busy = false;
    for (uint32_t r = 0; r < ranks(); ++r) {
      const RankArea& area = segment_.rank(r);
      busy = busy ||
          (area.working.load(std::memory_order_seq_cst) != 0 &&
           area.departure.load(std::memory_order_acquire) != Departure::Died);
    }
    if (!busy || Clock::now() >= end) {
      return;
    }
    bell.sleep(seen, std::chrono::milliseconds(20));
  }
}

void Communicator::ringEveryone() noexcept {
  header().engine.ring();
  for (uint32_t r = 0; r < ranks(); ++r) {
    segment_.rank(r).bell.ring();
  }
}

void Communicator::depart(Departure why) noexcept {
  Departure present = Departure::Present;
  if (area().departure.compare_exchange_strong(present, why)) {
    header().departures.fetch_add(1);
    ringEveryone();
  }
}

void Communicator::peerDied(uint32_t rank) noexcept {
  std::atomic<Departure>& departure = segment_.rank(rank).departure;
  Departure present = Departure::Present;
  const bool first = departure.compare_exchange_strong(present, Departure::Died);
  if (!first && present != Departure::Died) {
    return;  // it had left in order
  }
  try {
    const Member& dead = member(rank);
    fail(
        HCCL_E_REMOTE,
        "rank " + std::to_string(rank) + " of communicator '" + name() + "' died (device " +
            std::to_string(dead.device) + ", process " + std::to_string(dead.process) +
            "), noticed by rank " + std::to_string(this->rank()) +
            "; look at the first error of that process");
  } catch (const std::exception&) {
    fail(HCCL_E_REMOTE, "a rank died");
  }
}

Buffer Communicator::describeBuffer(
    const void* data, uint64_t bytes, size_t alignment, const char* call, const char* what) const {
  Buffer buffer;
  if (bytes == 0) {
    return buffer;
  }
  const std::string prefix =
      std::string(call) + " on rank " + std::to_string(rank()) + " of '" + name() + "': " + what;
  if (data == nullptr) {
    throw Failure(HCCL_E_PTR, prefix + " is a null pointer");
  }
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    throw Failure(
        HCCL_E_PARA,
        prefix + " is not aligned to its elements of " + std::to_string(alignment) + " bytes");
  }
  int memfd = -1;
  uint64_t fileSize = 0;
  if (deviceMemoryFile(device(), &memfd, &fileSize) != ACL_SUCCESS) {
    throw Failure(HCCL_E_RUNTIME, prefix + ": " + takeRecentMessage());
  }
  buffer.data = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  buffer.bytes = bytes;
  for (uint64_t done = 0; done < bytes;) {
    MemoryLocation location;
    if (!locate(buffer.data + done, &location)) {
      throw Failure(
          HCCL_E_PARA,
          prefix + " of " + std::to_string(bytes) + " bytes " +
              (done == 0 ? "is not device memory (expected memory of device "
                         : "reaches past the end of its allocation (after " +
                       std::to_string(done) + " bytes, device ") +
              std::to_string(device()) + ")");
    }
    if (location.device != device() || location.memfd != memfd) {
      throw Failure(
          HCCL_E_PARA,
          prefix + " lies on device " + std::to_string(location.device) +
              (location.device == device() ? " but belongs to another process" : "") +
              "; the communicator was made for device " + std::to_string(device()));
    }
    const uint64_t run = std::min(location.contiguous, bytes - done);
    if (run == 0) {
      throw Failure(HCCL_E_INTERNAL, prefix + ": the emulator located 0 bytes");
    }
    if (!buffer.extents.empty() &&
        buffer.extents.back().offset + buffer.extents.back().bytes == location.offset) {
      buffer.extents.back().bytes += run;
    } else {
      buffer.extents.push_back(Extent{location.offset, run});
    }
    done += run;
  }
  if (buffer.extents.size() > kMaxExtents) {
    throw Failure(
        HCCL_E_NOT_SUPPORT,
        prefix + " is spread over " + std::to_string(buffer.extents.size()) +
            " separate runs of device memory; the emulator handles " + std::to_string(kMaxExtents));
  }
  return buffer;
}

std::string Communicator::describeBlocked() {
  std::lock_guard guard(blockedMutex_);
  std::string text;
  for (Condition* condition : blocked_) {
    text += (text.empty() ? "" : "; ") + condition->describe();
  }
  return text;
}

void Communicator::destroy() noexcept {
  const int64_t left = outstanding.load();
  if (left > 0) {
    try {
      const std::string blocked = describeBlocked();
      fail(
          HCCL_E_SUSPENDING,
          "rank " + std::to_string(rank()) + " destroyed communicator '" + name() + "' with " +
              std::to_string(left) + (left == 1 ? " operation" : " operations") + " outstanding" +
              (blocked.empty() ? "" : ": " + blocked));
    } catch (const std::exception&) {
      fail(HCCL_E_SUSPENDING, "a rank destroyed the communicator with operations outstanding");
    }
    quiesce();
  }
  depart(Departure::Destroyed);
}

OutstandingTask::OutstandingTask(std::shared_ptr<Communicator> communicator, std::string what)
    : communicator_(std::move(communicator)), what_(std::move(what)) {
  communicator_->outstanding.fetch_add(1);
}

OutstandingTask::~OutstandingTask() {
  if (armed_) {
    communicator_->fail(
        HCCL_E_SUSPENDING,
        what_ + " of rank " + std::to_string(communicator_->rank()) +
            " was dropped before it ran: its stream was aborted or destroyed");
  }
  release();
}

void OutstandingTask::release() {
  if (counted_) {
    counted_ = false;
    communicator_->outstanding.fetch_sub(1);
  }
}

aclError OutstandingTask::finishFailed() noexcept {
  try {
    const Failure failure = currentFailure(what_.c_str());
    communicator_->fail(failure.code, failure.text);  // unless that is where it came from
    communicator_->quiesce();
    return npu_emulator::fail(
        streamError(failure.code),
        what_ + " on rank " + std::to_string(communicator_->rank()) + " of communicator '" +
            communicator_->name() + "' failed: " + failure.text);
  } catch (const std::exception&) {
    communicator_->fail(HCCL_E_MEMORY, "out of host memory");
    return ACL_ERROR_BAD_ALLOC;
  }
}

HcclComm addHandle(std::shared_ptr<Communicator> communicator) {
  Handles& all = handles();
  std::lock_guard guard(all.mutex);
  HcclComm handle = communicator.get();
  all.live[handle] = std::move(communicator);
  return handle;
}

std::shared_ptr<Communicator> findHandle(HcclComm handle) {
  Handles& all = handles();
  std::lock_guard guard(all.mutex);
  const auto found = all.live.find(handle);
  return found == all.live.end() ? nullptr : found->second;
}

std::shared_ptr<Communicator> removeHandle(HcclComm handle) {
  Handles& all = handles();
  std::lock_guard guard(all.mutex);
  auto node = all.live.extract(handle);
  return node.empty() ? nullptr : std::move(node.mapped());
}

}  // namespace npu_emulator::hccl

namespace npu_emulator {

void leaveCommunicators(const char* why) noexcept {
  hccl::Handles& all = hccl::handles();
  std::vector<std::shared_ptr<hccl::Communicator>> live;
  try {
    std::lock_guard guard(all.mutex);
    for (const auto& [handle, communicator] : all.live) {
      live.push_back(communicator);
    }
    for (const auto& communicator : live) {
      if (communicator->outstanding.load() > 0) {
        communicator->fail(
            HCCL_E_SUSPENDING,
            "rank " + std::to_string(communicator->rank()) + " left communicator '" +
                communicator->name() + "' with operations outstanding: " + why);
      }
    }
  } catch (const std::exception&) {
    for (const auto& communicator : live) {
      communicator->fail(HCCL_E_SUSPENDING, "a rank left the communicator");
    }
  }
  for (const auto& communicator : live) {
    communicator->depart(hccl::Departure::Exited);
  }
}

}  // namespace npu_emulator
