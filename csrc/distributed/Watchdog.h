// The one thread per process that looks after launched operations: it notices completion, errors
// that HCCL reports later, and operations that do not finish in time.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/Operation.h"

namespace torch_npu::distributed {

// Note [Errors of collectives]
// A collective fails long after its call returned. The first failure is kept in the group: wait(),
// the next operation and destroy_process_group throw it. The group's communicators are aborted,
// which sets hosts and streams free that wait for them: at the failure, or, if
// TORCH_HCCL_ASYNC_ERROR_HANDLING is 0 or 3, as soon as an operation in flight has not finished in
// time. So with every setting a timeout ends every wait. With 1 and 3 (the default) the process is
// ended if nobody was told within kTearDownGrace (SIGABRT) or before its exit (exit code 1): a
// program that hangs elsewhere, or ends as if all were well, must not go unnoticed.
class Watchdog {
 public:
  static Watchdog& instance();

  void watch(std::shared_ptr<Operation> operation);
  // Looks a last time, then stops and joins the thread. At exit only.
  void stop() noexcept;

 private:
  struct TearDown {
    std::shared_ptr<GroupState> group;
    Clock::time_point when;
  };

  Watchdog();
  void run() noexcept;
  void scan();
  // The operations of a failed group are over; what else must happen, according to errorHandling.
  void react(const Operation& operation);
  void endProcessIfUndelivered(bool atExit);

  std::mutex mutex_;  // guards operations_ and stopping_; no CANN call while held
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Operation>> operations_;
  bool stopping_ = false;

  // The watchdog thread's own, and stop()'s after the join.
  std::vector<std::shared_ptr<Operation>> watched_;
  std::vector<TearDown> tearDowns_;
  std::thread thread_;
};

}  // namespace torch_npu::distributed
