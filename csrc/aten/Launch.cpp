#include "aten/Launch.h"

#include <memory>

#include "cann/Acl.h"
#include "cann/Env.h"
#include "cann/Error.h"

namespace torch_npu::aten {

ViewShape viewShape(const aclTensor* tensor) {
  int64_t* dims = nullptr;
  uint64_t count = 0;
  cann::aclGetViewShape.check(tensor, &dims, &count);
  const std::unique_ptr<int64_t[]> owner(dims);  // CANN allocates it with new[] and leaves it to us
  return ViewShape(dims, dims + count);
}

bool launchesBlock() {
  static const bool block = cann::env::flag("ASCEND_LAUNCH_BLOCKING");
  return block;
}

int finishStream(aclrtStream stream) {
  return cann::aclrtSynchronizeStream(stream);
}

void throwLaunchError(
    const char* operatorName, Phase phase, int code, const std::string& arguments) {
  std::string call = operatorName;
  if (phase == Phase::Plan) {
    call += "GetWorkspaceSize";
  }
  cann::throwError(call.c_str(), code, operatorName + ("(" + arguments + ")"));
}

}  // namespace torch_npu::aten
