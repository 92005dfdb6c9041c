// The one table of environment variables that the backend reads. A name that is not in it does not
// compile; a value that cannot be understood is a ValueError naming the variable and what it
// accepts.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace torch_npu::cann::env {

enum class Kind : uint8_t { Flag, Integer, Seconds, Text };

struct Variable {
  std::string_view name;
  Kind kind;
  std::string_view fallback;  // the value when unset or empty
  std::string_view meaning;
};

inline constexpr auto kVariables = std::to_array<Variable>({
    // Which CANN
    {"TORCH_NPU_CANN", Kind::Text, "auto",
     "auto: real CANN if the machine looks like it has one, else the emulator; real; emulator"},
    {"TORCH_NPU_EMULATOR_PATH", Kind::Text, "",
     "folder of the emulator's libraries instead of our own"},
    {"TORCH_NPU_EMULATOR_ANNOUNCED", Kind::Flag, "0",
     "set by us once the emulator was announced, so that child processes stay silent"},
    {"LOCAL_RANK", Kind::Integer, "0",
     "set by launchers: of a node's ranks only 0 announces the emulator"},
    {"ASCEND_HOME_PATH", Kind::Text, "", "root of the CANN toolkit; its lib64 is searched first"},
    {"ASCEND_OPP_PATH", Kind::Text, "",
     "operator package root, with the vendors' custom operators"},
    {"ASCEND_CUSTOM_OPP_PATH", Kind::Text, "",
     "colon list of custom operator packages, searched before libopapi"},
    {"TORCH_ACL_INIT_CONFIG_PATH", Kind::Text, "", "JSON file handed to aclInit"},
    // Devices and streams
    {"TORCH_NPU_DEFAULT_DEVICE", Kind::Integer, "0", "the device that every thread starts on"},
    {"STREAMS_PER_DEVICE", Kind::Integer, "32",
     "8 to 32: pool streams of each device and priority"},
    {"ACL_DEVICE_SYNC_TIMEOUT", Kind::Seconds, "0",
     "time limit of a device or stream synchronise; 0: none"},
    // Memory
    {"PYTORCH_NPU_ALLOC_CONF", Kind::Text, "", "allocator settings, grammar of PYTORCH_ALLOC_CONF"},
    {"PYTORCH_NO_NPU_MEMORY_CACHING", Kind::Flag, "0", "1: every allocation goes to the device"},
    // Operators
    {"ASCEND_LAUNCH_BLOCKING", Kind::Flag, "0",
     "1: wait for every operator, so that its error is raised where it was called"},
    {"TORCH_NPU_FALLBACK_CPU_DISABLE", Kind::Flag, "0",
     "1: an operator without an NPU kernel raises instead of running on the CPU"},
    {"TORCH_NPU_WARNING_DISABLE", Kind::Flag, "0", "1: silence the backend's warnings"},
    // Process group
    {"TORCH_HCCL_BLOCKING_WAIT", Kind::Flag, "0",
     "1: Work.wait blocks the host, raises on timeout"},
    {"TORCH_HCCL_ASYNC_ERROR_HANDLING", Kind::Integer, "3",
     "watchdog: 0 none, 1 abort and tear down, 2 abort only, 3 tear down without abort"},
    {"TORCH_HCCL_HIGH_PRIORITY", Kind::Flag, "0", "1: communication streams of high priority"},
    {"P2P_HCCL_BUFFSIZE", Kind::Integer, "20",
     "MiB of the buffer of send/recv communicators; 0: share the group's communicator"},
});

// A name of the table, checked when it is compiled.
class Name {
 public:
  consteval Name(const char* name) : variable_(find(name)) {}
  const Variable& variable() const noexcept { return *variable_; }

 private:
  static consteval const Variable* find(std::string_view name) {
    for (const Variable& variable : kVariables) {
      if (variable.name == name) return &variable;
    }
    throw "this environment variable is not in kVariables of cann/Env.h";
  }

  const Variable* variable_;
};

// Set and not empty.
bool isSet(Name name);
// 0|1, and true|false, on|off, yes|no in any case
bool flag(Name name);
// A decimal integer within [lowest, highest]
int64_t integer(Name name, int64_t lowest = INT64_MIN, int64_t highest = INT64_MAX);
// Seconds, not negative, fractions allowed
std::chrono::milliseconds seconds(Name name);
std::string text(Name name);

}  // namespace torch_npu::cann::env
