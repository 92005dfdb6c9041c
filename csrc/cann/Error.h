// From status codes to exceptions by meaning: memory -> OutOfMemoryError, HCCL -> DistBackendError,
// the rest -> AcceleratorError with the code.
#pragma once

#include <string>

#include "cann/abi/hccl.h"

namespace torch_npu::cann {

// "ACL_ERROR_RT_MEMORY_ALLOCATION" for 207001; "unknown error" for a code that is in no table.
std::string errorName(int code);
std::string hcclErrorName(int code);

// CANN's message about this thread's last failure, "" if there is none. Reading clears it, so read
// it at once, on the thread that failed, before any other call.
std::string recentMessage();

// `call` is the C function that returned `code`. `context` is what the caller knows beyond that
// (operator, shapes, stream) and is appended. Both read recentMessage() themselves.
[[noreturn]] void throwError(const char* call, int code, const std::string& context = {});
[[noreturn]] void throwHcclError(const char* call, HcclResult code,
                                 const std::string& context = {});

// The text that throwError puts into the exception, for places that must not throw.
std::string describeError(const char* call, int code, const std::string& context = {});
std::string describeHcclError(const char* call, HcclResult code, const std::string& context = {});

// True for the codes that throwError turns into c10::OutOfMemoryError.
bool isOutOfMemory(int code) noexcept;

}  // namespace torch_npu::cann
