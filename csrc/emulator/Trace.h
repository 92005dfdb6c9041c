// Entry of every ABI function: faults on demand and traces on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "emulator/Abi.h"
#include "emulator/Fault.h"

namespace npu_emulator {

// CLOCK_MONOTONIC in nanoseconds.
uint64_t nowNanoseconds();

// True when TORCH_NPU_EMULATOR_TRACE or _FAULTS is set: the slow path of call().
bool instrumented() noexcept;

bool tracing() noexcept;
void traceCall(const char* name, uint64_t start, uint64_t end, int64_t result);
void traceTask(
    const char* name, int device, int stream, uint64_t queued, uint64_t start, uint64_t end,
    int64_t result);

// Runs the body of the ABI function `name` (a literal) that returns a status code:
//   aclError aclrtX(...) { return call("aclrtX", [&]() -> aclError { ... }); }
template <class Body>
auto call(const char* name, Body&& body) -> decltype(body()) {
  using Result = decltype(body());
  if (!instrumented()) {
    return std::forward<Body>(body)();
  }
  const uint64_t start = nowNanoseconds();
  const int injected = faultAtCall(name);
  const Result result = injected != 0 ? static_cast<Result>(injected) : body();
  traceCall(name, start, nowNanoseconds(), static_cast<int64_t>(result));
  return result;
}

}  // namespace npu_emulator
