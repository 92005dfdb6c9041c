// aclnn: the object model and the two-phase operators. One Operator a line is in the generated
// cann/OpApiOps.h, included at the end.
#pragma once

#include <cstdint>

#include "cann/Symbol.h"
#include "cann/abi/aclnn.h"

namespace torch_npu::cann {

// clang-format off: one a line
inline constinit Symbol<decltype(::aclCreateBoolArray)> aclCreateBoolArray{"aclCreateBoolArray", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclCreateIntArray)> aclCreateIntArray{"aclCreateIntArray", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclCreateScalar)> aclCreateScalar{"aclCreateScalar", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclCreateScalarList)> aclCreateScalarList{"aclCreateScalarList", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclCreateTensor)> aclCreateTensor{"aclCreateTensor", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclCreateTensorList)> aclCreateTensorList{"aclCreateTensorList", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyAclOpExecutor)> aclDestroyAclOpExecutor{"aclDestroyAclOpExecutor", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyBoolArray)> aclDestroyBoolArray{"aclDestroyBoolArray", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyIntArray)> aclDestroyIntArray{"aclDestroyIntArray", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyScalar)> aclDestroyScalar{"aclDestroyScalar", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyScalarList)> aclDestroyScalarList{"aclDestroyScalarList", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyTensor)> aclDestroyTensor{"aclDestroyTensor", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclDestroyTensorList)> aclDestroyTensorList{"aclDestroyTensorList", Lib::Nnopbase};
inline constinit Symbol<decltype(::aclGetViewShape)> aclGetViewShape{"aclGetViewShape", Lib::Nnopbase};
// clang-format on

// An aclnn operator: `plan` is XGetWorkspaceSize (validates, sizes the workspace, builds the
// executor), `run` is X (enqueues on a stream and consumes the executor).
template <class Plan>
struct Operator {
  constexpr explicit Operator(const char* operatorName) noexcept
      : name(operatorName),
        plan(operatorName, Lib::OpApi, "GetWorkspaceSize"),
        run(operatorName, Lib::OpApi) {}

  // Whether this CANN has the operator. Throws only if no CANN can be loaded.
  bool available() const { return plan.available() && run.available(); }

  const char* name;
  Symbol<Plan> plan;
  Symbol<aclnnStatus(void*, uint64_t, aclOpExecutor*, aclrtStream)> run;
};

}  // namespace torch_npu::cann

#include "cann/OpApiOps.h"
