// Settings: options of the operator compiler, parameters, limits of cores, timeouts.
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/Chip.h"
#include "emulator/Error.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

// Options of the operator compiler that have no effect on the host, but are remembered.
struct CompileOptions {
  std::mutex mutex;  // guards values
  std::map<int, std::string> values{
      {ACL_PRECISION_MODE, "allow_fp32_to_fp16"}, {ACL_AICORE_NUM, ""},
      {ACL_AUTO_TUNE_MODE, ""},                   {ACL_OP_SELECT_IMPL_MODE, "high_precision"},
      {ACL_OPTYPELIST_FOR_IMPLMODE, ""},          {ACL_OP_DEBUG_LEVEL, "0"},
      {ACL_DEBUG_DIR, ""},                        {ACL_OP_COMPILER_CACHE_MODE, "disable"},
      {ACL_OP_COMPILER_CACHE_DIR, ""},            {ACL_OP_PERFORMANCE_MODE, "normal"},
      {ACL_OP_JIT_COMPILE, "disable"},            {ACL_OP_DETERMINISTIC, "1"},
      {ACL_CUSTOMIZE_DTYPES, ""},                 {ACL_OP_PRECISION_MODE, ""},
      {ACL_ALLOW_HF32, "false"},                  {ACL_PRECISION_MODE_V2, ""},
      {ACL_OP_DEBUG_OPTION, ""}};
};

CompileOptions& compileOptions() {
  static auto* value = new CompileOptions;
  return *value;
}

struct SystemParameters {
  std::mutex mutex;  // guards values
  std::map<int, int64_t> values;
};

SystemParameters& systemParameters() {
  static auto* value = new SystemParameters;
  return *value;
}

bool knownParameter(aclSysParamOpt opt) {
  return opt >= ACL_OPT_DETERMINISTIC && opt <= ACL_OPT_STRONG_CONSISTENCY;
}

int64_t coresOf(aclrtDevResLimitType type) {
  return type == ACL_RT_DEV_RES_CUBE_CORE ? kCubeCores : kVectorCores;
}

bool knownResource(aclrtDevResLimitType type) {
  return type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE;
}

aclError checkLimit(const char* name, aclrtDevResLimitType type, uint32_t value) {
  if (!knownResource(type)) {
    return bad(name, "unknown kind of core");
  }
  if (value == 0 || value > static_cast<uint32_t>(coresOf(type))) {
    return bad(
        name, std::to_string(value) + " cores: expected 1 to " + std::to_string(coresOf(type)));
  }
  return ACL_SUCCESS;
}

// What aclrtUseStreamResInCurrentThread set: by aclrtDevResLimitType, 0 for none.
thread_local std::array<uint32_t, 2> threadResources{};

uint32_t deviceLimit(Context& context, aclrtDevResLimitType type) {
  const uint32_t limit = context.resourceLimit[type].load();
  return limit != 0 ? limit : static_cast<uint32_t>(coresOf(type));
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  return call("aclSetCompileopt", [&]() -> aclError {
    CompileOptions& options = compileOptions();
    std::lock_guard lock(options.mutex);
    const auto found = options.values.find(opt);
    if (found == options.values.end() || value == nullptr) {
      return bad("aclSetCompileopt", "unknown option " + std::to_string(opt) + " or null value");
    }
    found->second = value;
    return ACL_SUCCESS;
  });
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
  CompileOptions& options = compileOptions();
  std::lock_guard lock(options.mutex);
  const auto found = options.values.find(opt);
  return found == options.values.end() ? 0 : found->second.size() + 1;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  return call("aclGetCompileopt", [&]() -> aclError {
    CompileOptions& options = compileOptions();
    std::lock_guard lock(options.mutex);
    const auto found = options.values.find(opt);
    if (found == options.values.end() || value == nullptr || length < found->second.size() + 1) {
      return bad(
          "aclGetCompileopt",
          "unknown option " + std::to_string(opt) + " or no room for its value");
    }
    std::memcpy(value, found->second.c_str(), found->second.size() + 1);
    return ACL_SUCCESS;
  });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return call("aclrtSetSysParamOpt", [&]() -> aclError {
    if (!knownParameter(opt)) {
      return bad("aclrtSetSysParamOpt", "unknown parameter " + std::to_string(opt));
    }
    SystemParameters& parameters = systemParameters();
    std::lock_guard lock(parameters.mutex);
    parameters.values[opt] = value;
    return ACL_SUCCESS;
  });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return call("aclrtCtxSetSysParamOpt", [&]() -> aclError {
    if (!knownParameter(opt)) {
      return bad("aclrtCtxSetSysParamOpt", "unknown parameter " + std::to_string(opt));
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    std::lock_guard lock(context->settingsMutex);
    context->systemParameters[opt] = value;
    return ACL_SUCCESS;
  });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return call("aclrtGetSysParamOpt", [&]() -> aclError {
    if (!knownParameter(opt) || value == nullptr) {
      return bad(
          "aclrtGetSysParamOpt", "unknown parameter " + std::to_string(opt) + " or null pointer");
    }
    SystemParameters& parameters = systemParameters();
    std::lock_guard lock(parameters.mutex);
    const auto found = parameters.values.find(opt);
    *value = found == parameters.values.end() ? 0 : found->second;  // off unless it was set
    return ACL_SUCCESS;
  });
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return call("aclrtSetDeviceSatMode", [&]() -> aclError {
    if (mode == ACL_RT_OVERFLOW_MODE_SATURATION) {
      return fail(
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          "aclrtSetDeviceSatMode: the emulator computes with infinities and NaN, it cannot "
          "saturate");
    }
    if (mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
      return bad("aclrtSetDeviceSatMode", "unknown mode " + std::to_string(mode));
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    context->floatOverflowMode.store(mode);
    return ACL_SUCCESS;
  });
}

aclError aclrtSetOpExecuteTimeOut(uint32_t) {
  // An emulated operator runs until it ends: no watchdog of the chip stops it.
  return call("aclrtSetOpExecuteTimeOut", []() -> aclError { return ACL_SUCCESS; });
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  return call("aclrtSetOpExecuteTimeOutV2", [&]() -> aclError {
    if (actualTimeout == nullptr) {
      return bad("aclrtSetOpExecuteTimeOutV2", "the result pointer is null");
    }
    *actualTimeout = timeout;
    return ACL_SUCCESS;
  });
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  return call("aclrtSetDeviceResLimit", [&]() -> aclError {
    Context* context = nullptr;
    if (const aclError code = checkLimit("aclrtSetDeviceResLimit", type, value)) {
      return code;
    }
    if (const aclError code = openedContext("aclrtSetDeviceResLimit", deviceId, &context)) {
      return code;
    }
    context->resourceLimit[type].store(value);
    return ACL_SUCCESS;
  });
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  return call("aclrtGetDeviceResLimit", [&]() -> aclError {
    Context* context = nullptr;
    if (!knownResource(type) || value == nullptr) {
      return bad("aclrtGetDeviceResLimit", "unknown kind of core or null pointer");
    }
    if (const aclError code = openedContext("aclrtGetDeviceResLimit", deviceId, &context)) {
      return code;
    }
    *value = deviceLimit(*context, type);
    return ACL_SUCCESS;
  });
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  return call("aclrtResetDeviceResLimit", [&]() -> aclError {
    Context* context = nullptr;
    if (const aclError code = openedContext("aclrtResetDeviceResLimit", deviceId, &context)) {
      return code;
    }
    for (auto& limit : context->resourceLimit) {
      limit.store(0);
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  return call("aclrtSetStreamResLimit", [&]() -> aclError {
    if (const aclError code = checkLimit("aclrtSetStreamResLimit", type, value)) {
      return code;
    }
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    found->resourceLimit[type].store(value);
    return ACL_SUCCESS;
  });
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  return call("aclrtGetStreamResLimit", [&]() -> aclError {
    if (!knownResource(type) || value == nullptr) {
      return bad("aclrtGetStreamResLimit", "unknown kind of core or null pointer");
    }
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    const uint32_t limit = found->resourceLimit[type].load();
    *value = limit != 0 ? limit : deviceLimit(*found->context(), type);
    return ACL_SUCCESS;
  });
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  return call("aclrtResetStreamResLimit", [&]() -> aclError {
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    for (auto& limit : found->resourceLimit) {
      limit.store(0);
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return call("aclrtUseStreamResInCurrentThread", [&]() -> aclError {
    for (const auto type : {ACL_RT_DEV_RES_CUBE_CORE, ACL_RT_DEV_RES_VECTOR_CORE}) {
      uint32_t value = 0;
      if (const aclError code = aclrtGetStreamResLimit(stream, type, &value)) {
        return code;
      }
      threadResources[type] = value;
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  return call("aclrtUnuseStreamResInCurrentThread", [&]() -> aclError {
    if (findStream(stream) == nullptr) {
      return streamErrorCode(stream);
    }
    threadResources = {};
    return ACL_SUCCESS;
  });
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return call("aclrtGetResInCurrentThread", [&]() -> aclError {
    if (!knownResource(type) || value == nullptr) {
      return bad("aclrtGetResInCurrentThread", "unknown kind of core or null pointer");
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    *value = threadResources[type] != 0 ? threadResources[type] : deviceLimit(*context, type);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
