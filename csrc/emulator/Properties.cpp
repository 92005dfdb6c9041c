// Facts: what programs ask about devices and versions.
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "emulator/Chip.h"
#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

constexpr const char* kVersion = "9.1.0";

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

aclError unsupported(const char* name, const std::string& why) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, std::string(name) + ": " + why);
}

void copyText(char* target, size_t size, const char* text) {
  std::memset(target, 0, size);
  std::strncpy(target, text, size - 1);
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

const char* aclrtGetSocName() {
  return kSocName;
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return call("aclrtGetDeviceInfo", [&]() -> aclError {
    if (value == nullptr) {
      return bad("aclrtGetDeviceInfo", "the value pointer is null");
    }
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtGetDeviceInfo")) {
      return code;
    }
    switch (attr) {
      case ACL_DEV_ATTR_AICPU_CORE_NUM:
        *value = kAiCpuCores;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_AICORE_CORE_NUM:
      case ACL_DEV_ATTR_CUBE_CORE_NUM:
        *value = kCubeCores;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_VECTOR_CORE_NUM:
        *value = kVectorCores;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
        *value = kUnifiedBufferBytes;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: {
        uint64_t bytes = 0;
        const aclError code = deviceCapacity(&bytes);
        *value = static_cast<int64_t>(bytes);
        return code;
      }
      case ACL_DEV_ATTR_L2_CACHE_SIZE:
        *value = kL2Bytes;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_PHY_CHIP_ID: {
        int32_t physical = 0;
        const aclError code =
            aclrtGetLogicDevIdByUserDevId(static_cast<int32_t>(deviceId), &physical);
        *value = physical;
        return code;
      }
      case ACL_DEV_ATTR_IS_VIRTUAL:
        *value = 0;
        return ACL_SUCCESS;
      case ACL_DEV_ATTR_NPU_ARCH:
        *value = kArchitecture;
        return ACL_SUCCESS;
      default:
        return unsupported(
            "aclrtGetDeviceInfo",
            "an Ascend 910B has no attribute " + std::to_string(static_cast<int>(attr)));
    }
  });
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  return call("aclGetDeviceCapability", [&]() -> aclError {
    if (value == nullptr) {
      return bad("aclGetDeviceCapability", "the value pointer is null");
    }
    if (const aclError code = checkDeviceIndex(deviceId, "aclGetDeviceCapability")) {
      return code;
    }
    switch (deviceInfo) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = kCubeCores;
        return ACL_SUCCESS;
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = kVectorCores;
        return ACL_SUCCESS;
      case ACL_DEVICE_INFO_L2_SIZE:
        *value = kL2Bytes;
        return ACL_SUCCESS;
      default:
        return bad("aclGetDeviceCapability", "unknown fact " + std::to_string(deviceInfo));
    }
  });
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  return call("aclrtGetDeviceUtilizationRate", [&]() -> aclError {
    if (utilizationInfo == nullptr) {
      return bad("aclrtGetDeviceUtilizationRate", "the result pointer is null");
    }
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtGetDeviceUtilizationRate")) {
      return code;
    }
    *utilizationInfo = {};
    Device* device = deviceAt(deviceId);
    if (device == nullptr) {
      return ACL_SUCCESS;  // never used: idle and empty
    }
    uint64_t freeBytes = 0;
    uint64_t totalBytes = 1;
    uint64_t peak = 0;
    device->memory().usage(&freeBytes, &totalBytes, &peak);
    utilizationInfo->memoryUtilization =
        static_cast<int32_t>(100 * (totalBytes - freeBytes) / totalBytes);
    const int32_t busy = device->busyPercent();
    // The host's cores do the work of cubes and vectors alike.
    utilizationInfo->cubeUtilization = busy;
    utilizationInfo->vectorUtilization = busy;
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  return call("aclrtDeviceGetBareTgid", [&]() -> aclError {
    if (pid == nullptr) {
      return bad("aclrtDeviceGetBareTgid", "the result pointer is null");
    }
    *pid = static_cast<int32_t>(::getpid());
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return call("aclrtDeviceGetUuid", [&]() -> aclError {
    if (uuid == nullptr) {
      return bad("aclrtDeviceGetUuid", "the result pointer is null");
    }
    int32_t physical = 0;
    if (const aclError code = aclrtGetLogicDevIdByUserDevId(deviceId, &physical)) {
      return code;
    }
    // The machine's host name and the device's number in it: the same in every process.
    std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char* c = host.data(); *c != '\0'; ++c) {
      hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211u;
    }
    std::memcpy(uuid->bytes, &hash, sizeof(hash));
    std::memcpy(uuid->bytes + sizeof(hash), &physical, sizeof(physical));
    std::memcpy(uuid->bytes + 12, "NPUe", 4);
    return ACL_SUCCESS;
  });
}

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  return call("aclrtGetErrorVerbose", [&]() -> aclError {
    Context* context = nullptr;
    if (errorInfo == nullptr) {
      return bad("aclrtGetErrorVerbose", "the result pointer is null");
    }
    if (const aclError code = openedContext("aclrtGetErrorVerbose", deviceId, &context)) {
      return code;
    }
    *errorInfo = {};
    errorInfo->errorType = ACL_RT_NO_ERROR;
    std::string message;
    for (const auto& stream : streamsOf(deviceId)) {
      if (stream->stickyError(&message) != ACL_SUCCESS) {
        // Emulated hardware has no faults of its own: a task of a program failed.
        errorInfo->errorType = ACL_RT_ERROR_AICORE;
        errorInfo->hasDetail = 1;
        errorInfo->detail.aicoreErrType = ACL_RT_AICORE_ERROR_SW;
        break;
      }
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo* errorInfo) {
  return call("aclrtRepairError", [&]() -> aclError {
    Context* context = nullptr;
    if (errorInfo == nullptr) {
      return bad("aclrtRepairError", "the error is null");
    }
    if (const aclError code = openedContext("aclrtRepairError", deviceId, &context)) {
      return code;
    }
    return errorInfo->errorType == ACL_RT_NO_ERROR
        ? ACL_SUCCESS
        : unsupported("aclrtRepairError", "a failed task of a program cannot be repaired");
  });
}

aclError aclrtGetMemUceInfo(
    int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize, size_t* retSize) {
  return call("aclrtGetMemUceInfo", [&]() -> aclError {
    if (memUceInfoArray == nullptr || arraySize == 0 || retSize == nullptr) {
      return bad("aclrtGetMemUceInfo", "nowhere to write to");
    }
    const aclError code = checkDeviceIndex(deviceId, "aclrtGetMemUceInfo");
    if (code == ACL_SUCCESS) {
      *retSize = 0;  // the host's memory reports uncorrectable errors to the kernel, not to us
    }
    return code;
  });
}

aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize) {
  return call("aclrtMemUceRepair", [&]() -> aclError {
    if (memUceInfoArray == nullptr || arraySize == 0) {
      return bad("aclrtMemUceRepair", "no errors given");
    }
    const aclError code = checkDeviceIndex(deviceId, "aclrtMemUceRepair");
    return code != ACL_SUCCESS
        ? code
        : unsupported("aclrtMemUceRepair", "emulated memory has no uncorrectable errors to repair");
  });
}

aclError aclrtGetHardwareSyncAddr(void**) {
  return call("aclrtGetHardwareSyncAddr", []() -> aclError {
    return unsupported("aclrtGetHardwareSyncAddr", "the emulator runs no device binaries");
  });
}

aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  return call("aclGetCannAttributeList", [&]() -> aclError {
    static constexpr std::array<aclCannAttr, 3> kAttributes{
        ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};
    if (cannAttrList == nullptr || num == nullptr) {
      return bad("aclGetCannAttributeList", "null pointers");
    }
    *cannAttrList = kAttributes.data();
    *num = kAttributes.size();
    return ACL_SUCCESS;
  });
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  return call("aclGetCannAttribute", [&]() -> aclError {
    if (value == nullptr) {
      return bad("aclGetCannAttribute", "the value pointer is null");
    }
    switch (cannAttr) {
      case ACL_CANN_ATTR_INF_NAN:
      case ACL_CANN_ATTR_BF16:
        *value = 1;
        return ACL_SUCCESS;
      case ACL_CANN_ATTR_JIT_COMPILE:
        *value = 0;
        return ACL_SUCCESS;
      default:
        return bad("aclGetCannAttribute", "unknown attribute " + std::to_string(cannAttr));
    }
  });
}

aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return call("aclsysGetVersionStr", [&]() -> aclError {
    if (pkgName == nullptr || versionStr == nullptr) {
      return bad("aclsysGetVersionStr", "null pointers");
    }
    std::memcpy(versionStr, kVersion, std::strlen(kVersion) + 1);  // every package: one emulator
    return ACL_SUCCESS;
  });
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  return call("aclsysGetCANNVersion", [&]() -> aclError {
    if (version == nullptr || name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
      return bad("aclsysGetCANNVersion", "unknown package or null pointer");
    }
    *version = {};
    copyText(version->version, sizeof(version->version), kVersion);
    copyText(version->majorVersion, sizeof(version->majorVersion), "9");
    copyText(version->minorVersion, sizeof(version->minorVersion), "1");
    copyText(version->releaseVersion, sizeof(version->releaseVersion), "0");
    copyText(version->patchVersion, sizeof(version->patchVersion), "");
    return ACL_SUCCESS;
  });
}

}  // extern "C"
