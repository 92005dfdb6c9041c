#include "emulator/Fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <thread>
#include <vector>

#include "emulator/Device.h"
#include "emulator/Error.h"
#include "emulator/Stream.h"

namespace npu_emulator {
namespace {

using std::chrono::milliseconds;

enum class Action { Delay, Error, Hang, Kill, OutOfMemory, LateCopy };

struct Fault {
  std::string name;
  bool onTask = false;
  int64_t nth = 0;  // 0: each
  Action action = Action::Delay;
  int64_t amount = 0;  // milliseconds or code
  std::atomic<int64_t> seen{0};
};

constexpr int64_t kDefaultDelay = 100;
constexpr int64_t kDefaultLateness = 20;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool parseNumber(const std::string& text, int64_t* value) {
  char* end = nullptr;
  *value = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && *value >= 0;
}

int64_t defaultErrorCode(const Fault& fault) {
  if (!fault.onTask && fault.name.starts_with("Hccl")) {
    return HCCL_E_INTERNAL;
  }
  return ACL_ERROR_RT_AICORE_EXCEPTION;
}

// Null: what is wrong with the text goes to `problem`, which stays empty for another rank's fault.
void parseFault(const std::string& text, std::deque<Fault>& faults, std::string* problem) {
  const auto parts = split(text, ':');
  if (parts.size() != 4) {
    *problem = "expected call:rank:nth:action";
    return;
  }
  int64_t rank = -1;
  if (parts[1] != "*" && !parseNumber(parts[1], &rank)) {
    *problem = "the rank must be a number or *";
    return;
  }
  int64_t nth = 0;
  if (parts[2] != "*" && (!parseNumber(parts[2], &nth) || nth == 0)) {
    *problem = "the count must be a number from 1 or *";
    return;
  }
  const auto action = split(parts[3], '=');
  int64_t amount = -1;
  if (action.empty() || action.size() > 2 ||
      (action.size() == 2 && !parseNumber(action[1], &amount))) {
    *problem = "the action must be a name, or name=number";
    return;
  }
  Fault& fault = faults.emplace_back();
  fault.onTask = parts[0].starts_with("task/");
  fault.name = fault.onTask ? parts[0].substr(5) : parts[0];
  fault.nth = nth;
  fault.amount = amount;
  const std::string& name = action[0];
  if (name == "delay") {
    fault.action = Action::Delay;
    fault.amount = amount < 0 ? kDefaultDelay : amount;
  } else if (name == "error") {
    fault.action = Action::Error;
    fault.amount = amount < 0 ? defaultErrorCode(fault) : amount;
  } else if (name == "hang") {
    fault.action = Action::Hang;
  } else if (name == "kill") {
    fault.action = Action::Kill;
  } else if (name == "oom") {
    fault.action = Action::OutOfMemory;
  } else if (name == "late-copy") {
    fault.action = Action::LateCopy;
    fault.onTask = true;
    fault.amount = amount < 0 ? kDefaultLateness : amount;
  } else {
    *problem = "unknown action '" + name + "' (delay, error, hang, kill, oom, late-copy)";
  }
  const bool meant = parts[1] == "*" || rank == jobRank();
  if (!problem->empty() || !meant) {
    faults.pop_back();
  }
}

// Never destroyed: tasks may run until the very end of the process.
std::deque<Fault>& faults() {
  static std::deque<Fault>* list = [] {
    auto* result = new std::deque<Fault>;
    const char* text = std::getenv("TORCH_NPU_EMULATOR_FAULTS");
    for (const auto& item : split(text == nullptr ? "" : text, ',')) {
      std::string problem;
      parseFault(item, *result, &problem);
      if (!problem.empty()) {
        std::fprintf(
            stderr, "torch_npu: TORCH_NPU_EMULATOR_FAULTS: '%s': %s\n", item.c_str(),
            problem.c_str());
        std::exit(2);
      }
    }
    return result;
  }();
  return *list;
}

// Sleeps in steps, so that a cancelled task ends early. A negative duration: for ever.
void pause(int64_t duration) {
  constexpr milliseconds kStep{50};
  const auto end = std::chrono::steady_clock::now() + milliseconds(duration);
  while (!taskCancelled()) {
    const auto now = std::chrono::steady_clock::now();
    if (duration >= 0 && now >= end) {
      return;
    }
    std::this_thread::sleep_for(
        duration < 0 ? std::chrono::nanoseconds(kStep)
                     : std::min<std::chrono::nanoseconds>(kStep, end - now));
  }
}

int apply(const Fault& fault) {
  const std::string where = "fault injected into " + fault.name + " by TORCH_NPU_EMULATOR_FAULTS";
  switch (fault.action) {
    case Action::Delay:
    case Action::LateCopy:
      pause(fault.amount);
      return 0;
    case Action::Error:
      return fail(static_cast<aclError>(fault.amount), where);
    case Action::OutOfMemory:
      return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, where + ": out of device memory");
    case Action::Hang:
      pause(-1);
      return fail(ACL_ERROR_RT_STREAM_ABORT, where + ": the hanging task was cancelled");
    case Action::Kill:
      ::kill(::getpid(), SIGKILL);
      return 0;
  }
  return 0;
}

int applyAll(const char* name, bool onTask) {
  // Every fault of the name counts this use, also when an earlier one ends it.
  std::vector<const Fault*> due;
  for (Fault& fault : faults()) {
    if (fault.onTask == onTask && fault.name == name) {
      const int64_t use = fault.seen.fetch_add(1, std::memory_order_relaxed) + 1;
      if (fault.nth == 0 || fault.nth == use) {
        due.push_back(&fault);
      }
    }
  }
  for (const Fault* fault : due) {
    if (const int code = apply(*fault); code != 0) {
      return code;
    }
  }
  return 0;
}

}  // namespace

bool faultsRequested() noexcept {
  return !faults().empty();
}

int faultAtCall(const char* name) {
  return applyAll(name, false);
}

int faultAtTask(const char* name) {
  return applyAll(name, true);
}

}  // namespace npu_emulator
