#include "cann/Error.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "cann/Acl.h"
#include "cann/ErrorNames.h"

namespace torch_npu::cann {
namespace {

struct Advice {
  int code;
  const char* text;
};

constexpr const char* kKernelCrashed =
    "A kernel crashed, launched at any time since the last synchronisation: narrow it down by "
    "torch.npu.synchronize() after suspected operators.";

// Likely cause and next step of the codes that users meet.
constexpr Advice kAdvice[] = {
    {ACL_ERROR_UNINITIALIZE, "The runtime was not started, or was ended already at exit."},
    {ACL_ERROR_RT_PARAM_INVALID, "An argument is out of range: CANN's message says which."},
    {ACL_ERROR_RT_INVALID_DEVICEID,
     "There is no such device: see torch.npu.device_count() and ASCEND_RT_VISIBLE_DEVICES."},
    {ACL_ERROR_RT_CONTEXT_NULL,
     "This thread has no device: call torch.npu.set_device() in it before using raw CANN handles."},
    {ACL_ERROR_RT_STREAM_CONTEXT, "The stream belongs to another device than the current one."},
    {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "This device or CANN version lacks the feature."},
    {ACL_ERROR_RT_NO_DEVICE,
     "No NPU is visible: check `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES."},
    {ACL_ERROR_RT_NO_PERMISSION,
     "The user may not open the device: check the group of /dev/davinci* and the container's "
     "devices."},
    {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
     "The device did not finish in time (ACL_DEVICE_SYNC_TIMEOUT): a kernel or a collective "
     "hangs."},
    {ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
     "The event was not reached in time: what it waits for hangs."},
    {ACL_ERROR_RT_TASK_TIMEOUT, "A task ran longer than allowed: a kernel or a collective hangs."},
    {ACL_ERROR_RT_DEVICE_TASK_ABORT,
     "The device's tasks were aborted: restart the process to use it again."},
    {ACL_ERROR_RT_AICORE_EXCEPTION, kKernelCrashed},
    {ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, kKernelCrashed},
    {ACL_ERROR_RT_AICPU_EXCEPTION, kKernelCrashed},
    {ACL_ERROR_RT_DEVICE_MEM_ERROR,
     "The device's memory is damaged: take the device out of service."},
    {ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR,
     "The device's memory is damaged: take the device out of service."},
    {ACL_ERROR_RT_LINK_ERROR,
     "The link between devices failed: check `npu-smi info` and the cabling."},
    {ACL_ERROR_DRV_FAILURE, "The driver failed: check `npu-smi info` and the driver's version."},
};

// Codes of aclnn calls are in no header that ../facts covers; these three classes are documented.
constexpr ErrorName kAclnnErrors[] = {
    {161001, "ACLNN_ERR_PARAM_NULLPTR"},
    {161002, "ACLNN_ERR_PARAM_INVALID"},
    {361001, "ACLNN_ERR_RUNTIME_ERROR"},
};

constexpr const char* kHcclErrors[] = {
    "HCCL_SUCCESS",
    "HCCL_E_PARA",
    "HCCL_E_PTR",
    "HCCL_E_MEMORY",
    "HCCL_E_INTERNAL",
    "HCCL_E_NOT_SUPPORT",
    "HCCL_E_NOT_FOUND",
    "HCCL_E_UNAVAIL",
    "HCCL_E_SYSCALL",
    "HCCL_E_TIMEOUT",
    "HCCL_E_OPEN_FILE_FAILURE",
    "HCCL_E_TCP_CONNECT",
    "HCCL_E_ROCE_CONNECT",
    "HCCL_E_TCP_TRANSFER",
    "HCCL_E_ROCE_TRANSFER",
    "HCCL_E_RUNTIME",
    "HCCL_E_DRV",
    "HCCL_E_PROFILING",
    "HCCL_E_CCE",
    "HCCL_E_NETWORK",
    "HCCL_E_AGAIN",
    "HCCL_E_REMOTE",
    "HCCL_E_SUSPENDING",
    "HCCL_E_OPRETRY_FAIL",
    "HCCL_E_OOM",
};
static_assert(std::size(kHcclErrors) == HCCL_E_OOM + 1);

const char* hcclAdvice(HcclResult code) {
  switch (code) {
    case HCCL_E_PARA:
      return "The ranks disagree about the collective, or an argument is invalid.";
    case HCCL_E_TIMEOUT:
      return "A rank did not arrive in time: look at what the other ranks are doing.";
    case HCCL_E_REMOTE:
      return "Another rank failed or left: its own error is the first to look at.";
    case HCCL_E_TCP_CONNECT:
    case HCCL_E_ROCE_CONNECT:
      return "The ranks cannot reach each other: check HCCL_SOCKET_IFNAME, HCCL_IF_IP and "
             "firewalls.";
    case HCCL_E_OOM:
    case HCCL_E_MEMORY:
      return "Memory ran out: free some, or make HCCL_BUFFSIZE smaller.";
    case HCCL_E_SUSPENDING:
      return "The communicator is being aborted.";
    default:
      return "";
  }
}

// Asks CANN, not the runtime's bookkeeping: an error may come from another context than was meant.
std::string deviceText() {
  int32_t device = -1;
  if (!aclrtGetDevice.available() || aclrtGetDevice(&device) != ACL_SUCCESS)
    return "no device current";
  return "npu:" + std::to_string(device);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  return text;
}

std::string compose(const char* call, const std::string& name, int code, const std::string& message,
                    const std::string& context, const char* advice) {
  std::string text = c10::str(call, " failed with ", name, " (", code, "), ", deviceText(), ".");
  if (!context.empty()) text += "\n" + context;
  if (!message.empty()) text += "\nCANN says: " + message;
  if (*advice != '\0') text += c10::str("\n", advice);
  return text;
}

}  // namespace

std::string errorName(int code) {
  const auto* found = std::ranges::lower_bound(kErrorNames, code, {}, &ErrorName::code);
  if (found != std::end(kErrorNames) && found->code == code) return found->name;
  for (const ErrorName& error : kAclnnErrors) {
    if (error.code == code) return error.name;
  }
  if (code / 1000 == 561) return "ACLNN_ERR_INNER";  // 561xxx: inside the operator library
  return "unknown error";
}

std::string hcclErrorName(int code) {
  return code >= 0 && code <= HCCL_E_OOM ? kHcclErrors[code] : "unknown error";
}

std::string recentMessage() {
  if (!aclGetRecentErrMsg.available()) return "";
  const char* message = aclGetRecentErrMsg();
  return message != nullptr ? std::string(trimmed(message)) : "";
}

bool isOutOfMemory(int code) noexcept {
  return code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_RT_DEVICE_OOM ||
         code == ACL_ERROR_BAD_ALLOC || code == ACL_ERROR_GE_MEMORY_ALLOCATION;
}

std::string describeError(const char* call, int code, const std::string& context) {
  const std::string message = recentMessage();
  const char* advice = "";
  for (const Advice& entry : kAdvice) {
    if (entry.code == code) advice = entry.text;
  }
  return compose(call, errorName(code), code, message, context, advice);
}

std::string describeHcclError(const char* call, HcclResult code, const std::string& context) {
  const std::string message = recentMessage();
  return compose(call, hcclErrorName(code), code, message, context, hcclAdvice(code));
}

void throwError(const char* call, int code, const std::string& context) {
  std::string text = describeError(call, code, context);
  // The location is kept for the backtrace, and `call` may die before that.
  const c10::SourceLocation where{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  if (isOutOfMemory(code)) throw c10::OutOfMemoryError(where, std::move(text));
  throw c10::AcceleratorError(where, code, std::move(text));
}

void throwHcclError(const char* call, HcclResult code, const std::string& context) {
  C10_THROW_ERROR(DistBackendError, describeHcclError(call, code, context));
}

}  // namespace torch_npu::cann
