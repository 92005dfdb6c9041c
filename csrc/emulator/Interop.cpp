#include "emulator/Interop.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string_view>
#include <utility>

#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

using namespace npu_emulator;

namespace {

aclError noBinaries(const char* name) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      std::string(name) + ": the emulator runs no binaries of the chip, only aclnn operators");
}

aclError noDumps(const char* name) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      std::string(name) + ": the emulator does not dump operators");
}

aclError noCapture(const char* name) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      std::string(name) + ": the emulator does not capture streams into graphs yet");
}

thread_local aclmdlRICaptureMode captureMode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

}  // namespace

extern "C" {

aclError aclrtBinaryGetFunction(const aclrtBinHandle, const char*, aclrtFuncHandle*) {
  return noBinaries("aclrtBinaryGetFunction");
}

aclError aclrtBinaryLoadFromData(
    const void*, size_t, const aclrtBinaryLoadOptions*, aclrtBinHandle*) {
  return noBinaries("aclrtBinaryLoadFromData");
}

aclError aclrtGetFunctionAddr(aclrtFuncHandle, void**, void**) {
  return noBinaries("aclrtGetFunctionAddr");
}

rtError_t rtDevBinaryRegister(const rtDevBinary_t*, void**) {
  return noBinaries("rtDevBinaryRegister");
}

rtError_t rtFunctionRegister(void*, const void*, const char*, const void*, uint32_t) {
  return noBinaries("rtFunctionRegister");
}

rtError_t rtGetC2cCtrlAddr(uint64_t*, uint32_t*) {
  return noBinaries("rtGetC2cCtrlAddr");
}

rtError_t rtKernelLaunch(const void*, uint32_t, void*, uint32_t, rtSmDesc_t*, rtStream_t) {
  return noBinaries("rtKernelLaunch");
}

void aclAppLog(
    aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  static const int64_t threshold = integerFromEnvironment("ASCEND_GLOBAL_LOG_LEVEL", ACL_ERROR);
  if (logLevel < threshold || logLevel > ACL_ERROR || fmt == nullptr) {
    return;
  }
  constexpr std::array<const char*, 4> kNames{"DEBUG", "INFO", "WARNING", "ERROR"};
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text.data(), text.size(), fmt, arguments);
  va_end(arguments);
  std::fprintf(
      stderr, "[%s] %s:%u %s: %s\n", kNames[logLevel], file == nullptr ? "?" : file, line,
      func == nullptr ? "?" : func, text.data());
}

aclError aclmdlInitDump() {
  return noDumps("aclmdlInitDump");
}

aclError aclmdlSetDump(const char*) {
  return noDumps("aclmdlSetDump");
}

aclError aclmdlFinalizeDump() {
  return noDumps("aclmdlFinalizeDump");
}

// Profiling: no session can be started here (aclprofInit and its relatives do not exist), so that
// there is nobody to keep what is reported. Callers report without asking.
uint64_t MsprofGetHashId(const char* hashInfo, size_t length) {
  return hashInfo == nullptr ? 0
                             : std::hash<std::string_view>{}(std::string_view(hashInfo, length));
}

int32_t MsprofRegisterCallback(uint32_t, ProfCommandHandle) {
  return 0;  // commands come from sessions
}

int32_t MsprofReportAdditionalInfo(uint32_t, void*, uint32_t) {
  return 0;
}

int32_t MsprofReportApi(uint32_t, const MsprofApi*) {
  return 0;
}

int32_t MsprofReportCompactInfo(uint32_t, void*, uint32_t) {
  return 0;
}

uint64_t MsprofSysCycleTime() {
  return nowNanoseconds();
}

aclError StressDetect(int32_t, void*, size_t) {
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "StressDetect: there is no hardware to put under stress");
}

// The answer false makes callers use none of the cache; the rest is there because some look the
// names up before they ask.
bool CanUsePTACache(const char*) {
  return false;
}

void InitPTACacheThreadLocal() {}
void UnInitPTACacheThreadLocal() {}
void SetPTAHashKey(uint64_t) {}
void SetPTACacheHashKey(uint8_t*, size_t) {}
void AddTensorAddrToCachedList(void*) {}

aclOpExecutor* PTAGetExecCache(uint64_t, uint64_t*) {
  return nullptr;  // not in the cache
}

aclOpExecutor* PTAFindExecCache(uint8_t*, size_t, uint64_t*) {
  return nullptr;
}

// A pool for the executors' host memory, which here is the process's heap.
int InitHugeMemThreadLocal(void*, bool) {
  return 0;
}
void UnInitHugeMemThreadLocal(void*, bool) {}
void ReleaseHugeMem(void*, bool) {}

aclError aclmdlRICaptureBegin(aclrtStream, aclmdlRICaptureMode) {
  return noCapture("aclmdlRICaptureBegin");
}

aclError aclmdlRICaptureEnd(aclrtStream, aclmdlRI*) {
  return noCapture("aclmdlRICaptureEnd");
}

aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI) {
  return call("aclmdlRICaptureGetInfo", [&]() -> aclError {
    if (status == nullptr) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureGetInfo: the status pointer is null");
    }
    if (findStream(stream) == nullptr) {
      return streamErrorCode(stream);
    }
    *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;  // no capture ever begins
    if (modelRI != nullptr) {
      *modelRI = nullptr;
    }
    return ACL_SUCCESS;
  });
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  if (mode == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureThreadExchangeMode: null pointer");
  }
  std::swap(*mode, captureMode);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream) {
  return noCapture("aclmdlRICaptureTaskGrpBegin");
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream, aclrtTaskGrp*) {
  return noCapture("aclmdlRICaptureTaskGrpEnd");
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream, aclrtTaskGrp) {
  return noCapture("aclmdlRICaptureTaskUpdateBegin");
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream) {
  return noCapture("aclmdlRICaptureTaskUpdateEnd");
}

aclError aclmdlRIExecuteAsync(aclmdlRI, aclrtStream) {
  return noCapture("aclmdlRIExecuteAsync");
}

aclError aclmdlRIDestroy(aclmdlRI) {
  return noCapture("aclmdlRIDestroy");
}

aclError aclmdlRIDebugPrint(aclmdlRI) {
  return noCapture("aclmdlRIDebugPrint");
}

}  // extern "C"
