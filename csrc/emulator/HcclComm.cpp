// HCCL's communicators: root info, creation, end, state; and what the emulator does not offer.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "emulator/Abi.h"
#include "emulator/Bootstrap.h"
#include "emulator/Device.h"
#include "emulator/HcclCall.h"

using namespace npu_emulator::hccl;

namespace {

// Number of settings that HcclCommConfig may carry: all up to hcclBufferName.
constexpr uint32_t kConfigCapability = 12;

// Applies what is in a configuration; its first bytes say how large it is (old programs: less).
void applyConfig(const HcclCommConfig* config, const char* function, JoinRequest* request) {
  request->patience = executionTimeout();
  if (config == nullptr) {
    return;
  }
  struct {
    uint64_t size;
    uint32_t magic;
    uint32_t version;
  } info;
  std::memcpy(&info, config->reserved, sizeof(info));
  if (info.magic != static_cast<uint32_t>(HCCL_COMM_CONFIG_MAGIC_WORD) ||
      info.size < offsetof(HcclCommConfig, hcclCommName)) {
    throw Failure(
        HCCL_E_PARA,
        std::string(function) +
            ": the HcclCommConfig was not initialised: its first bytes must hold its size, magic "
            "word and version (HcclCommConfigInit does that)");
  }
  if (info.size >= offsetof(HcclCommConfig, hcclUdi)) {
    const char* name = config->hcclCommName;
    request->name = std::string(name, ::strnlen(name, sizeof(config->hcclCommName) - 1));
  }
  // HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET is -1; 0: no limit.
  if (info.size >= offsetof(HcclCommConfig, hcclAlgo) && config->hcclExecTimeOut >= 0) {
    request->patience = std::chrono::seconds(config->hcclExecTimeOut);
  }
}

int requireDevice(const char* function) {
  const int device = npu_emulator::currentDeviceOrNone();
  if (device < 0) {
    throw Failure(
        HCCL_E_RUNTIME,
        std::string(function) + ": this thread has no device; call aclrtSetDevice first");
  }
  return device;
}

void createCommunicator(
    const char* function, uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
    const HcclCommConfig* config, HcclComm* comm) {
  requirePointer(rootInfo, function, "rootInfo");
  requirePointer(comm, function, "comm");
  // The segment grows with the cube of the ranks in its largest, rarely touched part.
  constexpr uint32_t kMostRanks = 256;
  if (nRanks == 0 || nRanks > kMostRanks || rank >= nRanks) {
    throw Failure(
        HCCL_E_PARA,
        std::string(function) + ": rank " + std::to_string(rank) + " of " +
            std::to_string(nRanks) + " ranks; expected 1 to " + std::to_string(kMostRanks) +
            " ranks and a rank below their number");
  }
  RootInfo root;
  std::memcpy(&root, rootInfo->internal, sizeof(root));
  JoinRequest request;
  request.rank = rank;
  request.ranks = nRanks;
  request.device = requireDevice(function);
  applyConfig(config, function, &request);
  *comm = addHandle(join(root, request));
}

void createRootInfo(const char* function, HcclRootInfo* rootInfo) {
  requirePointer(rootInfo, function, "rootInfo");
  requireDevice(function);
  const RootInfo root = makeRootInfo();
  std::memset(rootInfo->internal, 0, sizeof(rootInfo->internal));
  std::memcpy(rootInfo->internal, &root, sizeof(root));
}

}  // namespace

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return entry("HcclGetRootInfo", [&] { createRootInfo("HcclGetRootInfo", rootInfo); });
}

HcclResult HcclGetRootInfoScalable(HcclRootInfo* rootInfo) {
  return entry(
      "HcclGetRootInfoScalable", [&] { createRootInfo("HcclGetRootInfoScalable", rootInfo); });
}

HcclResult HcclCommInitRootInfo(
    uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  return entry("HcclCommInitRootInfo", [&] {
    createCommunicator("HcclCommInitRootInfo", nRanks, rootInfo, rank, nullptr, comm);
  });
}

HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, const HcclCommConfig* config,
    HcclComm* comm) {
  return entry("HcclCommInitRootInfoConfig", [&] {
    requirePointer(config, "HcclCommInitRootInfoConfig", "config");
    createCommunicator("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, config, comm);
  });
}

// Several roots share the work of large set-ups on hardware; here the first serves all ranks.
HcclResult HcclCommInitRootInfoScalable(
    uint32_t nRanks, uint32_t nRoot, const HcclRootInfo* rootInfoList, uint32_t rank,
    uint32_t /*nExtRoot*/, const HcclCommConfig* config, HcclComm* comm) {
  constexpr const char* kName = "HcclCommInitRootInfoScalable";
  return entry(kName, [&] {
    if (nRoot == 0) {
      throw Failure(HCCL_E_PARA, std::string(kName) + ": nRoot is 0");
    }
    createCommunicator(kName, nRanks, rootInfoList, rank, config, comm);
  });
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  constexpr const char* kName = "HcclCommInitAll";
  return entry(kName, [&] {
    requirePointer(devices, kName, "devices");
    requirePointer(comms, kName, "comms");
    if (ndev == 0) {
      throw Failure(HCCL_E_PARA, std::string(kName) + ": ndev is 0");
    }
    HcclRootInfo info{};
    const RootInfo root = makeRootInfo();
    std::memcpy(info.internal, &root, sizeof(root));
    // Joining waits for all ranks, so each joins on a thread of its own.
    std::vector<HcclComm> created(ndev, nullptr);
    std::vector<std::exception_ptr> errors(ndev);
    {
      std::vector<std::jthread> threads;
      for (uint32_t r = 0; r < ndev; ++r) {
        threads.emplace_back([&, r] {
          try {
            if (aclrtSetDevice(devices[r]) != ACL_SUCCESS) {
              throw Failure(HCCL_E_RUNTIME, npu_emulator::takeRecentMessage());
            }
            createCommunicator(kName, ndev, &info, r, nullptr, &created[r]);
          } catch (...) {
            errors[r] = std::current_exception();
          }
        });
      }
    }
    const auto failed = std::find_if(
        errors.begin(), errors.end(), [](const auto& error) { return error != nullptr; });
    if (failed != errors.end()) {
      for (HcclComm comm : created) {
        if (const auto communicator = removeHandle(comm)) {
          communicator->destroy();
        }
      }
      std::rethrow_exception(*failed);
    }
    std::copy(created.begin(), created.end(), comms);
  });
}

HcclResult HcclCreateSubCommConfig(
    HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId, uint32_t subCommRankId,
    HcclCommConfig* config, HcclComm* subComm) {
  constexpr const char* kName = "HcclCreateSubCommConfig";
  return entry(kName, [&] {
    requirePointer(comm, kName, "comm");
    requirePointer(subComm, kName, "subComm");
    const auto parent = communicatorOf(*comm, kName);
    if (rankIds == nullptr) {  // a rank of the parent that is not in the new communicator
      *subComm = nullptr;
      return;
    }
    const std::vector<uint32_t> members(rankIds, rankIds + rankNum);
    for (size_t i = 0; i < members.size(); ++i) {
      checkRank(*parent, members[i], kName, "rankIds entry");
      if (std::count(members.begin(), members.end(), members[i]) != 1) {
        throw Failure(
            HCCL_E_PARA,
            std::string(kName) + ": rank " + std::to_string(members[i]) +
                " is in rankIds more than once");
      }
    }
    if (subCommRankId >= rankNum || members[subCommRankId] != parent->rank()) {
      throw Failure(
          HCCL_E_PARA,
          std::string(kName) + ": rank " + std::to_string(parent->rank()) + " of '" +
              parent->name() + "' is not entry " + std::to_string(subCommRankId) + " of rankIds");
    }
    JoinRequest request;
    request.rank = subCommRankId;
    request.ranks = rankNum;
    request.device = parent->device();
    applyConfig(config, kName, &request);
    *subComm = addHandle(split(*parent, members, subCommId, request));
  });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return entry("HcclCommDestroy", [&] {
    const auto communicator = removeHandle(comm);
    if (!communicator) {
      communicatorOf(comm, "HcclCommDestroy");  // says why
    }
    communicator->destroy();
  });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return entry("HcclGetCommAsyncError", [&] {
    requirePointer(asyncError, "HcclGetCommAsyncError", "asyncError");
    const auto communicator = communicatorOf(comm, "HcclGetCommAsyncError");
    *asyncError = communicator->failure();
    if (*asyncError != HCCL_SUCCESS) {
      npu_emulator::setRecentMessage(communicator->failureText());
    }
  });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return entry("HcclGetCommName", [&] {
    requirePointer(commName, "HcclGetCommName", "commName");
    const auto communicator = communicatorOf(comm, "HcclGetCommName");
    // The caller brings COMM_NAME_MAX_LENGTH bytes.
    std::memset(commName, 0, COMM_NAME_MAX_LENGTH);
    communicator->name().copy(commName, COMM_NAME_MAX_LENGTH - 1);
  });
}

uint32_t HcclGetCommConfigCapability(void) { return kConfigCapability; }

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue /*configValue*/) {
  return entry("HcclSetConfig", [&] {
    if (config != HCCL_DETERMINISTIC) {
      notSupported("only HCCL_DETERMINISTIC can be set (the emulator always is)");
    }
  });
}

HcclResult HcclCommInitClusterInfoConfig(
    const char* /*clusterInfo*/, uint32_t /*rank*/, HcclCommConfig* /*config*/,
    HcclComm* /*comm*/) {
  return entry("HcclCommInitClusterInfoConfig", [] {
    notSupported("the emulator reads no rank table; use HcclCommInitRootInfoConfig");
  });
}

HcclResult HcclCommResume(HcclComm /*comm*/) {
  return entry("HcclCommResume", [] {
    notSupported("a failed communicator of the emulator cannot go on; destroy it, make a new one");
  });
}

namespace {
constexpr const char* kNoRegistration =
    "the emulator registers no memory with a communicator; collectives already read and write "
    "device memory in place";
}  // namespace

HcclResult HcclCommRegister(
    HcclComm /*comm*/, void* /*addr*/, uint64_t /*size*/, void** /*handle*/, uint32_t /*flag*/) {
  return entry("HcclCommRegister", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommDeregister(HcclComm /*comm*/, void* /*handle*/) {
  return entry("HcclCommDeregister", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommExchangeMem(
    HcclComm /*comm*/, void* /*windowHandle*/, uint32_t* /*peerRanks*/, uint32_t /*peerRankNum*/) {
  return entry("HcclCommExchangeMem", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommSetMemoryRange(
    HcclComm /*comm*/, void* /*baseVirPtr*/, size_t /*size*/, size_t /*alignment*/,
    uint64_t /*flags*/) {
  return entry("HcclCommSetMemoryRange", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommUnsetMemoryRange(HcclComm /*comm*/, void* /*baseVirPtr*/) {
  return entry("HcclCommUnsetMemoryRange", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommActivateCommMemory(
    HcclComm /*comm*/, void* /*virPtr*/, size_t /*size*/, size_t /*offset*/,
    aclrtDrvMemHandle /*handle*/, uint64_t /*flags*/) {
  return entry("HcclCommActivateCommMemory", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommDeactivateCommMemory(HcclComm /*comm*/, void* /*virPtr*/) {
  return entry("HcclCommDeactivateCommMemory", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommSymWinRegister(
    HcclComm /*comm*/, void* /*addr*/, uint64_t /*size*/, HcclCommSymWindow* /*winHandle*/,
    uint32_t /*flag*/) {
  return entry("HcclCommSymWinRegister", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommSymWinDeregister(HcclCommSymWindow /*winHandle*/) {
  return entry("HcclCommSymWinDeregister", [] { notSupported(kNoRegistration); });
}

HcclResult HcclCommWorkingDevNicSet(
    HcclComm /*comm*/, uint32_t* /*ranks*/, bool* /*useBackup*/, uint32_t /*nRanks*/) {
  return entry("HcclCommWorkingDevNicSet", [] {
    notSupported("the emulator has no network cards to switch");
  });
}
