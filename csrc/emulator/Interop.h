// Names that the vendor's wheel needs and torch_npu does not, so that cann/abi leaves them out.
// Declared here from ../cann/facts, and only for Interop*.cpp.
#pragma once

#include "emulator/Abi.h"

#pragma GCC visibility push(default)
extern "C" {

typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclopAttr aclopAttr;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef struct aclrtBinaryLoadOptions aclrtBinaryLoadOptions;
typedef struct MsprofApi MsprofApi;
typedef struct rtDevBinary rtDevBinary_t;
typedef struct rtSmDesc rtSmDesc_t;
typedef void* aclrtTaskGrp;
typedef int32_t rtError_t;
typedef void* rtStream_t;
typedef int32_t (*ProfCommandHandle)(uint32_t, void*, uint32_t);

typedef enum aclLogLevel {
  ACL_DEBUG = 0,
  ACL_INFO = 1,
  ACL_WARNING = 2,
  ACL_ERROR = 3
} aclLogLevel;
typedef enum aclMemType {
  ACL_MEMTYPE_DEVICE = 0,
  ACL_MEMTYPE_HOST = 1,
  ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2,
} aclMemType;
typedef enum aclopEngineType {
  ACL_ENGINE_SYS = 0,
  ACL_ENGINE_AICORE = 1,
  ACL_ENGINE_VECTOR = 2,
} aclopEngineType;
typedef enum aclopCompileType {
  ACL_COMPILE_SYS = 0,
  ACL_COMPILE_UNREGISTERED = 1,
} aclopCompileType;
typedef enum aclmdlRICaptureMode {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
  ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
} aclmdlRICaptureMode;
typedef enum aclmdlRICaptureStatus {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
  ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2,
} aclmdlRICaptureStatus;

// Descriptions for the older, compiled operators.
aclDataBuffer* aclCreateDataBuffer(void* data, size_t size);
aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer);
aclTensorDesc* aclCreateTensorDesc(
    aclDataType dataType, int numDims, const int64_t* dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
void aclSetTensorDescName(aclTensorDesc* desc, const char* name);
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType);
aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
aclopAttr* aclopCreateAttr(void);
void aclopDestroyAttr(const aclopAttr* attr);
aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue);
aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue);
aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue);
aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue);
aclError aclopSetAttrListBool(
    aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values);
aclError aclopSetAttrListFloat(
    aclopAttr* attr, const char* attrName, int numValues, const float* values);
aclError aclopSetAttrListInt(
    aclopAttr* attr, const char* attrName, int numValues, const int64_t* values);
aclError aclopSetAttrListListInt(
    aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
    const int64_t* const values[]);
aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue);
aclError aclopCompileAndExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs, const aclTensorDesc* const outputDesc[],
    aclDataBuffer* const outputs[], const aclopAttr* attr, aclopEngineType engineType,
    aclopCompileType compileFlag, const char* opPath, aclrtStream stream);
aclError aclopCompileAndExecuteV2(
    const char* opType, int numInputs, aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
    int numOutputs, aclTensorDesc* outputDesc[], aclDataBuffer* outputs[], aclopAttr* attr,
    aclopEngineType engineType, aclopCompileType compileFlag, const char* opPath,
    aclrtStream stream);

// Device binaries.
aclError aclrtBinaryGetFunction(
    const aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle);
aclError aclrtBinaryLoadFromData(
    const void* data, size_t length, const aclrtBinaryLoadOptions* options,
    aclrtBinHandle* binHandle);
aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void** aicAddr, void** aivAddr);
rtError_t rtDevBinaryRegister(const rtDevBinary_t* bin, void** handle);
rtError_t rtFunctionRegister(
    void* binHandle, const void* stubFunc, const char* stubName, const void* devFunc,
    uint32_t funcMode);
rtError_t rtGetC2cCtrlAddr(uint64_t* addr, uint32_t* len);
rtError_t rtKernelLaunch(
    const void* stubFunc, uint32_t blockDim, void* args, uint32_t argsSize, rtSmDesc_t* smDesc,
    rtStream_t stream);

// Logs, dumps, profiling.
void aclAppLog(
    aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...);
aclError aclmdlInitDump(void);
aclError aclmdlSetDump(const char* dumpCfgPath);
aclError aclmdlFinalizeDump(void);
uint64_t MsprofGetHashId(const char* hashInfo, size_t length);
int32_t MsprofRegisterCallback(uint32_t moduleId, ProfCommandHandle handle);
int32_t MsprofReportAdditionalInfo(uint32_t nonPersistantFlag, void* data, uint32_t length);
int32_t MsprofReportApi(uint32_t nonPersistantFlag, const MsprofApi* api);
int32_t MsprofReportCompactInfo(uint32_t nonPersistantFlag, void* data, uint32_t length);
uint64_t MsprofSysCycleTime(void);
aclError StressDetect(int32_t deviceId, void* workspace, size_t workspaceSize);

// Caches of executors between the wheel and CANN.
bool CanUsePTACache(const char* api);
void InitPTACacheThreadLocal(void);
void UnInitPTACacheThreadLocal(void);
void SetPTAHashKey(uint64_t hash);
aclOpExecutor* PTAGetExecCache(uint64_t hash, uint64_t* workspaceSize);
void SetPTACacheHashKey(uint8_t* key, size_t len);
aclOpExecutor* PTAFindExecCache(uint8_t* buf, size_t len, uint64_t* workspaceSize);
void AddTensorAddrToCachedList(void* addr);
int InitHugeMemThreadLocal(void* arg, bool sync);
void UnInitHugeMemThreadLocal(void* arg, bool sync);
void ReleaseHugeMem(void* arg, bool sync);

// Capture of streams into graphs.
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI);
aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI);
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode);
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle);
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
aclError aclmdlRIDestroy(aclmdlRI modelRI);
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

}  // extern "C"
#pragma GCC visibility pop
