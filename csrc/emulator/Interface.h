// What the emulator offers to libnpu_emulator_ops.so and to the loader of torch_npu, which both
// find it by the exported marker npu_emulator_interface(). Fields are only ever added at the end.
#pragma once

#include <cstdint>
#include <functional>

#include "emulator/Abi.h"

namespace npu_emulator {

struct EmulatorInterface {
  uint32_t version;
  // See Stream.h and Error.h. `name` must be a literal.
  aclError (*enqueue)(aclrtStream stream, const char* name, std::function<aclError()> work);
  aclError (*fail)(aclError code, const char* message);
  bool (*taskCancelled)();
  // "Ascend910B1 (emulated)": for device properties.
  const char* (*deviceName)();
  // Devices of the machine and bytes of each, for the banner; 0 or a code with a message.
  aclError (*describe)(uint32_t* devices, uint64_t* bytesPerDevice);
  // Index of the thread's current device, -1 if none is set.
  int (*currentDevice)();
  // True if [ptr, ptr + bytes) lies inside one live allocation of device memory.
  bool (*isDeviceMemory)(const void* ptr, uint64_t bytes);
  // For entry points: trace and faults as in Trace.h. enterCall gives a code to return at once, or
  // 0; leaveCall is told the result. Both do nothing unless instrumented() is true.
  bool (*instrumented)();
  int (*enterCall)(const char* name, uint64_t* startNanoseconds);
  void (*leaveCall)(const char* name, uint64_t startNanoseconds, int64_t result);
};

inline constexpr uint32_t kInterfaceVersion = 1;

}  // namespace npu_emulator

extern "C" __attribute__((visibility("default"))) const npu_emulator::EmulatorInterface*
npu_emulator_interface();
