#include "emulator/SharedSlot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "emulator/Device.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"

namespace npu_emulator {
namespace {

std::mutex& slotMutex() {
  static auto* value = new std::mutex;  // guards taking and releasing cells
  return *value;
}

SharedSlot* slotAt(char* base, uint64_t index) {
  return reinterpret_cast<SharedSlot*>(base + index * kSlotSize);
}

// Fields of a packed key. A process id has at most 22 bits in Linux.
constexpr int kPidBits = 22;
constexpr int kFileBits = 14;
constexpr int kSlotBits = 9;
constexpr int kGenerationBits = 19;
static_assert(kPidBits + kFileBits + kSlotBits + kGenerationBits == 64);
static_assert(kSlotCount == uint64_t{1} << kSlotBits);
constexpr uint32_t kGenerationMask = (uint32_t{1} << kGenerationBits) - 1;

}  // namespace

SharedSlot* takeSlot(int device, SharedSlot::Kind kind) {
  Device* found = deviceAt(device);
  int memfd = -1;
  uint64_t size = 0;
  if (deviceMemoryFile(device, &memfd, &size) != ACL_SUCCESS) {
    return nullptr;
  }
  std::lock_guard lock(slotMutex());
  for (uint64_t i = 0; i < kSlotCount; ++i) {
    SharedSlot* slot = slotAt(found->memory().base(), i);
    if (slot->kind.load() != SharedSlot::Unused) {
      continue;
    }
    slot->generation = (slot->generation + 1) & kGenerationMask;
    slot->recorded.store(0);
    slot->completed.store(0);
    slot->recorder.store(0);
    slot->error.store(0);
    slot->timestamp.store(0);
    slot->offset = 0;
    slot->size = 0;
    slot->anyPid.store(0);
    for (auto& pid : slot->pids) {
      pid.store(0);
    }
    slot->kind.store(kind);
    return slot;
  }
  fail(
      ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "device " + std::to_string(device) + ": " +
                                            std::to_string(kSlotCount) +
                                            " events and memory ranges are shared with other "
                                            "processes already, no more are possible");
  return nullptr;
}

void releaseSlot(SharedSlot* slot) {
  std::lock_guard lock(slotMutex());
  slot->kind.store(SharedSlot::Unused);
}

bool slotKey(int device, const SharedSlot* slot, SlotKey* key) {
  Device* found = deviceAt(device);
  if (found == nullptr || !found->memory().contains(slot)) {
    return false;
  }
  key->pid = static_cast<int32_t>(::getpid());
  key->memfd = found->memory().memfd();
  key->slot = static_cast<uint32_t>(
      (reinterpret_cast<const char*>(slot) - found->memory().base()) /
      static_cast<int64_t>(kSlotSize));
  key->generation = slot->generation;
  return true;
}

uint64_t packKey(const SlotKey& key) {
  if (key.pid >= 1 << kPidBits || key.memfd >= 1 << kFileBits) {
    fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
        "memory cannot be exported: this process opened its device as file " +
            std::to_string(key.memfd) + ", and only numbers below 16384 fit a shareable handle");
    return 0;
  }
  uint64_t packed = static_cast<uint64_t>(key.pid);
  packed = packed << kFileBits | static_cast<uint64_t>(key.memfd);
  packed = packed << kSlotBits | key.slot;
  return packed << kGenerationBits | key.generation;
}

SlotKey unpackKey(uint64_t packed) {
  SlotKey key;
  key.generation = static_cast<uint32_t>(packed) & kGenerationMask;
  packed >>= kGenerationBits;
  key.slot = static_cast<uint32_t>(packed & ((1u << kSlotBits) - 1));
  packed >>= kSlotBits;
  key.memfd = static_cast<int32_t>(packed & ((1u << kFileBits) - 1));
  key.pid = static_cast<int32_t>(packed >> kFileBits);
  return key;
}

std::string printKey(const char* prefix, const SlotKey& key) {
  return std::string(prefix) + ":" + std::to_string(key.pid) + ":" + std::to_string(key.memfd) +
         ":" + std::to_string(key.slot) + ":" + std::to_string(key.generation);
}

bool scanKey(const char* prefix, const char* text, SlotKey* key) {
  const std::string start = std::string(prefix) + ":";
  return std::strncmp(text, start.c_str(), start.size()) == 0 &&
      std::sscanf(
          text + start.size(), "%d:%d:%u:%u", &key->pid, &key->memfd, &key->slot,
          &key->generation) == 4;
}

ForeignFile::~ForeignFile() {
  if (slots != nullptr) {
    ::munmap(slots, kSlotArea);
  }
  if (memfd >= 0) {
    ::close(memfd);
  }
}

SharedSlot* ForeignFile::slot(const SlotKey& key, SharedSlot::Kind kind) const {
  if (key.slot >= kSlotCount) {
    return nullptr;
  }
  SharedSlot* found = slotAt(slots, key.slot);
  return found->kind.load() == kind && found->generation == key.generation ? found : nullptr;
}

std::shared_ptr<ForeignFile> openForeignFile(const SlotKey& key, const char* call) {
  auto file = std::make_shared<ForeignFile>();
  const std::string path =
      "/proc/" + std::to_string(key.pid) + "/fd/" + std::to_string(key.memfd);
  std::array<char, 64> target{};
  const auto length = ::readlink(path.c_str(), target.data(), target.size() - 1);
  // The number may belong to something else by now: only files of devices are opened.
  if (length > 0 && std::strncmp(target.data(), "/memfd:npu:", 11) == 0) {
    file->memfd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  } else if (length > 0) {
    errno = ENOENT;
  }
  if (file->memfd < 0) {
    fail(
        ACL_ERROR_RT_IPC_ERROR,
        std::string(call) + ": cannot open the memory of process " + std::to_string(key.pid) +
            ": " + std::strerror(errno) +
            " (the exporting process must be alive, on this host, of this user)");
    return nullptr;
  }
  void* slots = ::mmap(nullptr, kSlotArea, PROT_READ | PROT_WRITE, MAP_SHARED, file->memfd, 0);
  if (slots == MAP_FAILED) {
    fail(
        ACL_ERROR_RT_IPC_ERROR,
        std::string(call) + ": cannot map the memory of process " + std::to_string(key.pid) + ": " +
            std::strerror(errno));
    return nullptr;
  }
  ::madvise(slots, kSlotArea, MADV_DONTFORK);
  file->slots = static_cast<char*>(slots);
  return file;
}

bool mayImport(const SharedSlot& slot, int32_t pid) {
  if (slot.anyPid.load() != 0) {
    return true;
  }
  for (const auto& allowed : slot.pids) {
    if (allowed.load() == pid) {
      return true;
    }
  }
  return false;
}

aclError allowPids(SharedSlot& slot, const int32_t* pids, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i) {
    bool stored = false;
    for (auto& cell : slot.pids) {
      int32_t unused = 0;
      if (cell.load() == pids[i] || cell.compare_exchange_strong(unused, pids[i])) {
        stored = true;
        break;
      }
    }
    if (!stored) {
      return fail(
          ACL_ERROR_INVALID_PARAM,
          std::string(name) + ": more than " + std::to_string(SharedSlot::kMaxPids) + " processes");
    }
  }
  return ACL_SUCCESS;
}

aclError importRefused(const char* name) {
  return fail(
      ACL_ERROR_RT_NO_PERMISSION,
      std::string(name) + ": process " + std::to_string(::getpid()) +
          " is not among those that the exporting process allowed");
}

}  // namespace npu_emulator
