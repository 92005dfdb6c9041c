// HCCL's functions. check() throws c10::DistBackendError.
#pragma once

#include "cann/Symbol.h"
#include "cann/abi/hccl.h"

namespace torch_npu::cann {

// clang-format off: one a line
inline constinit Symbol<decltype(::HcclAllGather)> HcclAllGather{"HcclAllGather", Lib::Hccl};
inline constinit Symbol<decltype(::HcclAllGatherV)> HcclAllGatherV{"HcclAllGatherV", Lib::Hccl};
inline constinit Symbol<decltype(::HcclAllReduce)> HcclAllReduce{"HcclAllReduce", Lib::Hccl};
inline constinit Symbol<decltype(::HcclAlltoAll)> HcclAlltoAll{"HcclAlltoAll", Lib::Hccl};
inline constinit Symbol<decltype(::HcclAlltoAllV)> HcclAlltoAllV{"HcclAlltoAllV", Lib::Hccl};
inline constinit Symbol<decltype(::HcclAlltoAllVC)> HcclAlltoAllVC{"HcclAlltoAllVC", Lib::Hccl};
inline constinit Symbol<decltype(::HcclBatchSendRecv)> HcclBatchSendRecv{"HcclBatchSendRecv", Lib::Hccl};
inline constinit Symbol<decltype(::HcclBroadcast)> HcclBroadcast{"HcclBroadcast", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommActivateCommMemory)> HcclCommActivateCommMemory{"HcclCommActivateCommMemory", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommDeactivateCommMemory)> HcclCommDeactivateCommMemory{"HcclCommDeactivateCommMemory", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommDeregister)> HcclCommDeregister{"HcclCommDeregister", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommDestroy)> HcclCommDestroy{"HcclCommDestroy", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommExchangeMem)> HcclCommExchangeMem{"HcclCommExchangeMem", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommInitAll)> HcclCommInitAll{"HcclCommInitAll", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommInitClusterInfoConfig)> HcclCommInitClusterInfoConfig{"HcclCommInitClusterInfoConfig", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommInitRootInfo)> HcclCommInitRootInfo{"HcclCommInitRootInfo", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommInitRootInfoConfig)> HcclCommInitRootInfoConfig{"HcclCommInitRootInfoConfig", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommInitRootInfoScalable)> HcclCommInitRootInfoScalable{"HcclCommInitRootInfoScalable", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommRegister)> HcclCommRegister{"HcclCommRegister", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommResume)> HcclCommResume{"HcclCommResume", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommSetMemoryRange)> HcclCommSetMemoryRange{"HcclCommSetMemoryRange", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommSymWinDeregister)> HcclCommSymWinDeregister{"HcclCommSymWinDeregister", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommSymWinRegister)> HcclCommSymWinRegister{"HcclCommSymWinRegister", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommUnsetMemoryRange)> HcclCommUnsetMemoryRange{"HcclCommUnsetMemoryRange", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCommWorkingDevNicSet)> HcclCommWorkingDevNicSet{"HcclCommWorkingDevNicSet", Lib::Hccl};
inline constinit Symbol<decltype(::HcclCreateSubCommConfig)> HcclCreateSubCommConfig{"HcclCreateSubCommConfig", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGetCommAsyncError)> HcclGetCommAsyncError{"HcclGetCommAsyncError", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGetCommConfigCapability)> HcclGetCommConfigCapability{"HcclGetCommConfigCapability", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGetCommName)> HcclGetCommName{"HcclGetCommName", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGetRootInfo)> HcclGetRootInfo{"HcclGetRootInfo", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGetRootInfoScalable)> HcclGetRootInfoScalable{"HcclGetRootInfoScalable", Lib::Hccl};
inline constinit Symbol<decltype(::HcclGroupEnd)> HcclGroupEnd{"HcclGroupEnd", Lib::Hcomm};
inline constinit Symbol<decltype(::HcclGroupStart)> HcclGroupStart{"HcclGroupStart", Lib::Hcomm};
inline constinit Symbol<decltype(::HcclRecv)> HcclRecv{"HcclRecv", Lib::Hccl};
inline constinit Symbol<decltype(::HcclReduce)> HcclReduce{"HcclReduce", Lib::Hccl};
inline constinit Symbol<decltype(::HcclReduceScatter)> HcclReduceScatter{"HcclReduceScatter", Lib::Hccl};
inline constinit Symbol<decltype(::HcclReduceScatterV)> HcclReduceScatterV{"HcclReduceScatterV", Lib::Hccl};
inline constinit Symbol<decltype(::HcclScatter)> HcclScatter{"HcclScatter", Lib::Hccl};
inline constinit Symbol<decltype(::HcclSend)> HcclSend{"HcclSend", Lib::Hccl};
inline constinit Symbol<decltype(::HcclSetConfig)> HcclSetConfig{"HcclSetConfig", Lib::Hccl};
// clang-format on

}  // namespace torch_npu::cann
