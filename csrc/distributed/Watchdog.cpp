#include "distributed/Watchdog.h"

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/Device.h"

namespace torch_npu::distributed {
namespace {

using std::chrono::milliseconds;

// An error is noticed this late at most; a sleeping thread per process costs nothing measurable.
constexpr milliseconds kInterval{100};
constexpr milliseconds kTearDownGrace{5000};

bool tearsDown(ErrorHandling handling) {
  return handling == ErrorHandling::TearDown || handling == ErrorHandling::AbortAndTearDown;
}

bool aborts(ErrorHandling handling) {
  return handling == ErrorHandling::AbortOnly || handling == ErrorHandling::AbortAndTearDown;
}

}  // namespace

Watchdog& Watchdog::instance() {
  static auto* watchdog = new Watchdog;  // leaked: threads may launch during exit
  return *watchdog;
}

Watchdog::Watchdog() {
  thread_ = std::thread([this] { run(); });
  onFinalize([this] { stop(); });
}

void Watchdog::watch(std::shared_ptr<Operation> operation) {
  bool wasIdle = false;
  {
    std::lock_guard lock(mutex_);
    wasIdle = operations_.empty();
    operations_.push_back(std::move(operation));
  }
  if (wasIdle) wake_.notify_one();
}

void Watchdog::stop() noexcept {
  if (isInBadFork()) return;  // the thread is the parent's
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  try {
    scan();
  } catch (const std::exception& error) {
    LOG(ERROR) << "watchdog of collectives, last look: " << messageOf(error);
  }
  endProcessIfUndelivered(/*atExit=*/true);
}

void Watchdog::run() noexcept {
  c10::setThreadName("pt_hccl_watchdg");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (operations_.empty() && watched_.empty() && tearDowns_.empty()) {
      wake_.wait(lock, [this] { return stopping_ || !operations_.empty(); });
    }
    wake_.wait_for(lock, kInterval, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    try {
      scan();
    } catch (const std::exception& error) {
      LOG(ERROR) << "watchdog of collectives: " << messageOf(error);
    }
    endProcessIfUndelivered(/*atExit=*/false);
    lock.lock();
  }
}

void Watchdog::scan() {
  {
    std::lock_guard lock(mutex_);
    watched_.insert(watched_.end(), operations_.begin(), operations_.end());
    operations_.clear();
  }
  std::vector<std::shared_ptr<Operation>> remaining;
  for (auto& operation : watched_) {
    switch (operation->poll()) {
      case Operation::Status::Done:
        break;
      case Operation::Status::Failed:
        react(*operation);
        // Another operation failed, perhaps, and this one still holds somebody up.
        if (!operation->communicator->isEnded()) remaining.push_back(std::move(operation));
        break;
      case Operation::Status::Running: {
        // Work on a communicator in trouble may never finish, so ask before the time is up.
        if (const auto error = operation->communicator->asyncError()) {
          operation->fail(*error);
          react(*operation);
          if (!operation->communicator->isEnded()) remaining.push_back(std::move(operation));
        } else if (operation->isExpired()) {
          operation->fail(
              "did not finish in time. A rank has not called it, called something else, or died; "
              "look at the messages of the other ranks. A longer limit: "
              "init_process_group(timeout=...)");
          react(*operation);
        } else {
          remaining.push_back(std::move(operation));
        }
        break;
      }
    }
  }
  watched_ = std::move(remaining);
}

void Watchdog::react(const Operation& operation) {
  const auto& group = operation.group;
  const bool isFirst = group->claimReaction();
  if (isFirst && tearsDown(group->errorHandling)) {
    tearDowns_.push_back({group, Clock::now() + kTearDownGrace});
  }
  if (operation.isExpired() || (isFirst && aborts(group->errorHandling))) {
    group->abortCommunicators();
  }
}

void Watchdog::endProcessIfUndelivered(bool atExit) {
  const auto now = Clock::now();
  std::erase_if(tearDowns_, [](const TearDown& pending) { return pending.group->isDelivered(); });
  for (const TearDown& pending : tearDowns_) {
    if (!atExit && now < pending.when) continue;
    std::fprintf(
        stderr,
        "torch_npu: this process %s because the failure of a collective of %s, reported above, "
        "was not met by anything that waits for it (TORCH_HCCL_ASYNC_ERROR_HANDLING=2 would only "
        "abort the group, 0 only report)\n",
        atExit ? "gets exit code 1" : "is ended", pending.group->describe().c_str());
    std::fflush(nullptr);
    // A process that hangs leaves its stacks (faulthandler, a core); one that ends gets its exit
    // code.
    if (!atExit) std::abort();
    std::_Exit(EXIT_FAILURE);
  }
}

}  // namespace torch_npu::distributed
