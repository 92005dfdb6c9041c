#include "emulator/Interface.h"

#include "emulator/Device.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

aclError describe(uint32_t* devices, uint64_t* bytesPerDevice) {
  const aclError code = visibleDeviceCount(devices);
  return code != ACL_SUCCESS ? code : deviceCapacity(bytesPerDevice);
}

bool isDeviceMemory(const void* ptr, uint64_t bytes) {
  MemoryLocation location;
  return locate(ptr, &location) && bytes <= location.available;
}

int enterCall(const char* name, uint64_t* startNanoseconds) {
  if (!instrumented()) {
    return 0;
  }
  *startNanoseconds = nowNanoseconds();
  return faultAtCall(name);
}

void leaveCall(const char* name, uint64_t startNanoseconds, int64_t result) {
  if (instrumented()) {
    traceCall(name, startNanoseconds, nowNanoseconds(), result);
  }
}

constexpr EmulatorInterface kInterface{
    .version = kInterfaceVersion,
    .enqueue = [](aclrtStream stream, const char* name, std::function<aclError()> work)
        -> aclError { return enqueue(stream, name, std::move(work)); },
    .fail = [](aclError code, const char* message) -> aclError { return fail(code, message); },
    .taskCancelled = [] { return taskCancelled(); },
    .deviceName = deviceDisplayName,
    .describe = describe,
    .currentDevice = [] { return currentDeviceOrNone(); },
    .isDeviceMemory = isDeviceMemory,
    .instrumented = [] { return instrumented(); },
    .enterCall = enterCall,
    .leaveCall = leaveCall,
};

}  // namespace
}  // namespace npu_emulator

const npu_emulator::EmulatorInterface* npu_emulator_interface() {
  return &npu_emulator::kInterface;
}
