// HCCL: communicators and collectives of libhccl (and of libhcomm: HcclGroupStart/End).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cann/abi/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* HcclComm;
typedef void* HcclCommSymWindow;


typedef enum HcclConfig {
  HCCL_DETERMINISTIC = 0,
  HCCL_ACCELERATOR = 1,
  HCCL_CONFIG_RESERVED = 2,
} HcclConfig;

typedef enum HcclDataType {
  HCCL_DATA_TYPE_INT8 = 0,
  HCCL_DATA_TYPE_INT16 = 1,
  HCCL_DATA_TYPE_INT32 = 2,
  HCCL_DATA_TYPE_FP16 = 3,
  HCCL_DATA_TYPE_FP32 = 4,
  HCCL_DATA_TYPE_INT64 = 5,
  HCCL_DATA_TYPE_UINT64 = 6,
  HCCL_DATA_TYPE_UINT8 = 7,
  HCCL_DATA_TYPE_UINT16 = 8,
  HCCL_DATA_TYPE_UINT32 = 9,
  HCCL_DATA_TYPE_FP64 = 10,
  HCCL_DATA_TYPE_BFP16 = 11,
  HCCL_DATA_TYPE_INT128 = 12,
  HCCL_DATA_TYPE_HIF8 = 14,
  HCCL_DATA_TYPE_FP8E4M3 = 15,
  HCCL_DATA_TYPE_FP8E5M2 = 16,
  HCCL_DATA_TYPE_FP8E8M0 = 17,
  HCCL_DATA_TYPE_RESERVED = 255,
} HcclDataType;

typedef enum HcclReduceOp {
  HCCL_REDUCE_SUM = 0,
  HCCL_REDUCE_PROD = 1,
  HCCL_REDUCE_MAX = 2,
  HCCL_REDUCE_MIN = 3,
  HCCL_REDUCE_RESERVED = 255,
} HcclReduceOp;

typedef enum HcclResult {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,
  HCCL_E_PTR = 2,
  HCCL_E_MEMORY = 3,
  HCCL_E_INTERNAL = 4,
  HCCL_E_NOT_SUPPORT = 5,
  HCCL_E_NOT_FOUND = 6,
  HCCL_E_UNAVAIL = 7,
  HCCL_E_SYSCALL = 8,
  HCCL_E_TIMEOUT = 9,
  HCCL_E_OPEN_FILE_FAILURE = 10,
  HCCL_E_TCP_CONNECT = 11,
  HCCL_E_ROCE_CONNECT = 12,
  HCCL_E_TCP_TRANSFER = 13,
  HCCL_E_ROCE_TRANSFER = 14,
  HCCL_E_RUNTIME = 15,
  HCCL_E_DRV = 16,
  HCCL_E_PROFILING = 17,
  HCCL_E_CCE = 18,
  HCCL_E_NETWORK = 19,
  HCCL_E_AGAIN = 20,
  HCCL_E_REMOTE = 21,
  HCCL_E_SUSPENDING = 22,
  HCCL_E_OPRETRY_FAIL = 23,
  HCCL_E_OOM = 24,
  HCCL_E_RESERVED = 25,
} HcclResult;

typedef enum HcclSendRecvType {
  HCCL_SEND = 0,
  HCCL_RECV = 1,
  HCCL_SEND_RECV_RESERVED = 2,
} HcclSendRecvType;

typedef struct HcclCommConfig {
  char reserved[24];
  uint32_t hcclBufferSize;
  uint32_t hcclDeterministic;
  char hcclCommName[128];
  char hcclUdi[128];
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
  uint32_t hcclWorldRankID;
  uint64_t hcclJobID;
  uint8_t aclGraphZeroCopyEnable;
  int32_t hcclExecTimeOut;
  char hcclAlgo[1600];
  char hcclRetryEnable[50];
  char hcclRetryParams[128];
  char hcclBufferName[128];
  uint32_t hcclQos;
  uint64_t hcclSymWinMaxMemSizePerRank;
} HcclCommConfig;

typedef union HcclConfigValue {
  int32_t value;
} HcclConfigValue;

typedef struct HcclRootInfo {
  char internal[4108];
} HcclRootInfo;

typedef struct HcclSendRecvItem {
  HcclSendRecvType sendRecvType;
  void* buf;
  uint64_t count;
  HcclDataType dataType;
  uint32_t remoteRank;
} HcclSendRecvItem;

enum {
  HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET = -1,
  HCCL_COMM_DEFAULT_DETERMINISTIC = 0,
  HCCL_COMM_DEFAULT_OP_EXPANSION_MODE = 0,
  HCCL_COMM_CONFIG_VERSION = 10,
  HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE = 16,
  HCCL_COMM_CONFIG_INFO_BYTES = 24,
  HCCL_COMM_RETRY_ENABLE_MAX_LENGTH = 50,
  BUFFER_NAME_MAX_LENGTH = 128,
  COMM_NAME_MAX_LENGTH = 128,
  HCCL_COMM_RETRY_PARAMS_MAX_LENGTH = 128,
  UDI_MAX_LENGTH = 128,
  HCCL_COMM_DEFAULT_BUFFSIZE = 200,
  HCCL_COMM_ALGO_MAX_LENGTH = 1600,
  HCCL_ROOT_INFO_BYTES = 4108,
  HCCL_COMM_CONFIG_MAGIC_WORD = 4042322160,
  HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET = 4294967295,
  HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET = 4294967295,
  HCCL_COMM_QOS_CONFIG_NOT_SET = 4294967295,
  HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET = 4294967295,
  HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET = 4294967295,
};

HcclResult HcclAllGather(
    void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
    aclrtStream stream);
HcclResult HcclAllGatherV(
    void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
    const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream);
HcclResult HcclAllReduce(
    void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAll(
    const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAllV(
    const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
    const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
    HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAllVC(
    const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
    HcclDataType recvType, HcclComm comm, aclrtStream stream);
HcclResult HcclBatchSendRecv(
    HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream);
HcclResult HcclBroadcast(
    void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
    aclrtStream stream);
HcclResult HcclCommActivateCommMemory(
    HcclComm comm, void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
    uint64_t flags);
HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void* virPtr);
HcclResult HcclCommDeregister(HcclComm comm, void* handle);
HcclResult HcclCommDestroy(HcclComm comm);
HcclResult HcclCommExchangeMem(
    HcclComm comm, void* windowHandle, uint32_t* peerRanks, uint32_t peerRankNum);
HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms);
HcclResult HcclCommInitClusterInfoConfig(
    const char* clusterInfo, uint32_t rank, HcclCommConfig* config, HcclComm* comm);
HcclResult HcclCommInitRootInfo(
    uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm);
HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, const HcclCommConfig* config,
    HcclComm* comm);
HcclResult HcclCommInitRootInfoScalable(
    uint32_t nRanks, uint32_t nRoot, const HcclRootInfo* rootInfoList, uint32_t rank,
    uint32_t nExtRoot, const HcclCommConfig* config, HcclComm* comm);
HcclResult HcclCommRegister(HcclComm comm, void* addr, uint64_t size, void** handle, uint32_t flag);
HcclResult HcclCommResume(HcclComm comm);
HcclResult HcclCommSetMemoryRange(
    HcclComm comm, void* baseVirPtr, size_t size, size_t alignment, uint64_t flags);
HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);
HcclResult HcclCommSymWinRegister(
    HcclComm comm, void* addr, uint64_t size, HcclCommSymWindow* winHandle, uint32_t flag);
HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void* baseVirPtr);
HcclResult HcclCommWorkingDevNicSet(
    HcclComm comm, uint32_t* ranks, bool* useBackup, uint32_t nRanks);
HcclResult HcclCreateSubCommConfig(
    HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId, uint32_t subCommRankId,
    HcclCommConfig* config, HcclComm* subComm);
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError);
uint32_t HcclGetCommConfigCapability(void);
HcclResult HcclGetCommName(HcclComm comm, char* commName);
HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo);
HcclResult HcclGetRootInfoScalable(HcclRootInfo* rootInfo);
HcclResult HcclGroupEnd(void);
HcclResult HcclGroupStart(void);
HcclResult HcclRecv(
    void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
    aclrtStream stream);
HcclResult HcclReduce(
    void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatter(
    void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatterV(
    void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
    uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclScatter(
    void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream);
HcclResult HcclSend(
    void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
    aclrtStream stream);
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);

#ifdef __cplusplus
}
#endif
