#include "emulator/ops/Executor.h"

#include <c10/util/Exception.h>

#include <string_view>

#include "emulator/Interface.h"
#include "emulator/ops/KernelState.h"

namespace npu_emulator::ops {

namespace {

const EmulatorInterface& emulator() {
  static const EmulatorInterface* interface = npu_emulator_interface();
  return *interface;
}

[[maybe_unused]] const int kProcessThreads = KernelState::processThreads();

aclError execute(const char* op, const Work& work) {
  const auto failed = [op](const char* reason) {
    const std::string message = std::string(op) + " failed on the device: " + reason;
    return emulator().fail(ACL_ERROR_RT_AICORE_EXCEPTION, message.c_str());
  };
  try {
    KernelState state;
    work();
    return ACL_SUCCESS;
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const Refusal& refusal) {
    return failed(refusal.message.c_str());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

aclnnStatus planCall(
    const char* op, uint64_t* workspaceSize, aclOpExecutor** executor,
    c10::function_ref<Work()> make) {
  const auto fail = [op](aclnnStatus code, const std::string& reason) {
    return emulator().fail(code, (std::string(op) + ": " + reason).c_str());
  };
  if (workspaceSize == nullptr || executor == nullptr) {
    return fail(kParamNull, "workspaceSize and executor must not be null");
  }
  try {
    auto planned = std::make_unique<aclOpExecutor>(aclOpExecutor{op, make()});
    *workspaceSize = 0;
    *executor = planned.release();
    return ACL_SUCCESS;
  } catch (const Refusal& refusal) {
    return fail(refusal.code, refusal.message);
  } catch (const c10::Error& error) {
    return fail(kParamInvalid, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(kInnerError, error.what());
  }
}

aclnnStatus runCall(const char* op, aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) {
    return emulator().fail(kParamNull, (std::string(op) + ": executor is a null pointer").c_str());
  }
  const std::unique_ptr<aclOpExecutor> owned(executor);
  if (std::string_view(owned->op) != op) {
    return emulator().fail(
        kParamInvalid,
        (std::string(op) + ": the executor was made by " + owned->op + "GetWorkspaceSize").c_str());
  }
  if (!owned->work) {
    return ACL_SUCCESS;  // nothing to compute, e.g. no elements
  }
  return emulator().enqueue(
      stream, owned->op,
      [op = owned->op, work = std::move(owned->work)] { return execute(op, work); });
}

// Faults and traces of entry points, as in Trace.h.
template <class Body>
aclnnStatus instrument(const char* name, Body&& body) {
  if (!emulator().instrumented()) {
    return body();
  }
  uint64_t start = 0;
  const int injected = emulator().enterCall(name, &start);
  const aclnnStatus status = injected != 0 ? injected : body();
  emulator().leaveCall(name, start, status);
  return status;
}

}  // namespace

aclnnStatus plan(
    const char* op, const char* call, uint64_t* workspaceSize, aclOpExecutor** executor,
    c10::function_ref<Work()> make) {
  return instrument(call, [&] { return planCall(op, workspaceSize, executor, make); });
}

aclnnStatus run(const char* op, aclOpExecutor* executor, aclrtStream stream) {
  return instrument(op, [&] { return runCall(op, executor, stream); });
}

}  // namespace npu_emulator::ops
