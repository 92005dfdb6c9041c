// What every entry point of HCCL does first: checks of handles, types, counts; messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/Collectives.h"
#include "emulator/Communicator.h"
#include "emulator/Error.h"
#include "emulator/PointToPoint.h"
#include "emulator/Trace.h"

namespace npu_emulator::hccl {

// Runs the body of the function `name`: faults, traces, exceptions to codes and a recent message.
template <class Body>
HcclResult entry(const char* name, Body&& body) {
  return call(name, [&]() -> HcclResult {
    if (isForkedChild()) {
      forkedError();
      return HCCL_E_RUNTIME;
    }
    try {
      body();
      return HCCL_SUCCESS;
    } catch (...) {
      const Failure failure = currentFailure(name);
      const bool named = failure.text.rfind(name, 0) == 0;
      setRecentMessage(named ? failure.text : std::string(name) + ": " + failure.text);
      return failure.code;
    }
  });
}

// Throw Failure with `function` in the text.
std::shared_ptr<Communicator> communicatorOf(HcclComm handle, const char* function);
void requirePointer(const void* pointer, const char* function, const char* what);
uint32_t checkedType(HcclDataType type, const char* function);
void checkReducible(uint32_t dataType, uint32_t reduceOp, const char* function);
void checkRank(
    const Communicator& communicator, uint32_t rank, const char* function, const char* what);
// count x times elements in bytes, or Failure when that is no size.
uint64_t bytesOf(uint64_t count, uint64_t times, uint32_t dataType, const char* function);
// Input and output may be the same bytes at `inputOffset` of the input and `outputOffset` of the
// output, or apart; anything else would read what was written already.
void checkOverlap(const CollectiveCall& call, uint64_t inputOffset, uint64_t outputOffset);
constexpr uint64_t kNeverInPlace = ~uint64_t{0};

// Sends and receives: queued at once, or at the end of this thread's group.
void submit(const char* function, std::vector<Message> messages, aclrtStream stream);
void beginGroup();
void endGroup();

[[noreturn]] void notSupported(const char* why);

}  // namespace npu_emulator::hccl
