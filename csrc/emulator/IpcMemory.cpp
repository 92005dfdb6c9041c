// Memory that processes share by a key.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <shared_mutex>

#include "emulator/Error.h"
#include "emulator/SharedSlot.h"
#include "emulator/Trace.h"
#include "emulator/VirtualMemory.h"

namespace npu_emulator {
namespace {

struct Imported {
  uint64_t size = 0;          // of the mapping
  uint64_t offset = 0;        // of the mapping in the file
  int device = -1;            // current one of the importer
  std::string key;
  int uses = 0;
  void* pointer = nullptr;    // given out; inside the mapping
  uint64_t usable = 0;        // bytes from there
  std::shared_ptr<ForeignFile> file;
};

struct Keys {
  std::shared_mutex mutex;  // guards what follows; the cells' mutex is locked under it
  std::map<uintptr_t, Imported> imports;       // by the start of the mapping
  std::map<std::string, SharedSlot*> exports;  // keys of aclrtIpcMemGetExportKey
};

Keys& keys() {
  static auto* value = new Keys;
  return *value;
}

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

}  // namespace

bool locateImported(const void* ptr, MemoryLocation* location) {
  Keys& k = keys();
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  std::shared_lock lock(k.mutex);
  auto next = k.imports.upper_bound(address);
  if (next == k.imports.begin()) {
    return false;
  }
  const auto& [base, imported] = *std::prev(next);
  if (address >= base + imported.size) {
    return false;
  }
  const auto start = reinterpret_cast<uintptr_t>(imported.pointer);
  location->device = imported.device;
  location->memfd = imported.file->memfd;
  location->offset = imported.offset + (address - base);
  location->contiguous = address < start ? 0 : start + imported.usable - address;
  location->available = location->contiguous;
  return address >= start && address < start + imported.usable;
}

}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtIpcMemGetExportKey(
    void* devPtr, size_t size, char* key, size_t len, uint64_t flags) {
  return call("aclrtIpcMemGetExportKey", [&]() -> aclError {
    constexpr const char* kName = "aclrtIpcMemGetExportKey";
    constexpr size_t kKeyLength = 65;  // with the final 0
    if (key == nullptr || len < kKeyLength ||
        flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
      return bad(kName, "needs 65 bytes for the key and known flags");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    MemoryLocation location;
    if (!locate(devPtr, &location) || size == 0 || size > location.contiguous ||
        deviceAt(location.device) == nullptr ||
        location.memfd != deviceAt(location.device)->memory().memfd()) {
      return bad(kName, "the range is not inside live device memory of this process");
    }
    SharedSlot* slot = takeSlot(location.device, SharedSlot::MemorySlot);
    if (slot == nullptr) {
      return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    slot->offset = location.offset;
    slot->size = size;
    slot->anyPid.store(static_cast<uint32_t>(flags));
    SlotKey name;
    slotKey(location.device, slot, &name);
    const std::string text = printKey("npu-memory", name);
    std::memset(key, 0, len);
    std::memcpy(key, text.c_str(), text.size());
    Keys& k = keys();
    std::unique_lock lock(k.mutex);
    k.exports.emplace(text, slot);
    return ACL_SUCCESS;
  });
}

aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  return call("aclrtIpcMemSetImportPid", [&]() -> aclError {
    constexpr const char* kName = "aclrtIpcMemSetImportPid";
    if (key == nullptr || pid == nullptr || num == 0) {
      return bad(kName, "no key or no process ids");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    Keys& k = keys();
    std::unique_lock lock(k.mutex);
    const auto found = k.exports.find(key);
    return found == k.exports.end() ? bad(kName, "not a key that this process exported")
                                    : allowPids(*found->second, pid, num, kName);
  });
}

aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flags) {
  return call("aclrtIpcMemImportByKey", [&]() -> aclError {
    constexpr const char* kName = "aclrtIpcMemImportByKey";
    SlotKey name;
    if (devPtr == nullptr || key == nullptr || !scanKey("npu-memory", key, &name) ||
        flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
      return bad(kName, "not a key of aclrtIpcMemGetExportKey");
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    Keys& k = keys();
    std::unique_lock lock(k.mutex);
    for (auto& [start, imported] : k.imports) {
      if (imported.key == key) {
        ++imported.uses;
        *devPtr = imported.pointer;
        return ACL_SUCCESS;
      }
    }
    auto file = openForeignFile(name, kName);
    if (file == nullptr) {
      return ACL_ERROR_RT_IPC_ERROR;
    }
    const SharedSlot* slot = file->slot(name, SharedSlot::MemorySlot);
    if (slot == nullptr) {
      return bad(kName, "the exporting process has closed the key");
    }
    if (!mayImport(*slot, static_cast<int32_t>(::getpid()))) {
      return importRefused(kName);
    }
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    Imported imported;
    imported.offset = slot->offset / page * page;
    imported.size = slot->offset + slot->size - imported.offset;
    imported.usable = slot->size;
    imported.device = context->device->index();
    imported.key = key;
    imported.uses = 1;
    void* memory = ::mmap(
        nullptr, imported.size, PROT_READ | PROT_WRITE, MAP_SHARED, file->memfd,
        static_cast<off_t>(imported.offset));
    if (memory == MAP_FAILED) {
      return fail(ACL_ERROR_RT_IPC_ERROR, std::string(kName) + ": " + std::strerror(errno));
    }
    ::madvise(memory, imported.size, MADV_DONTFORK);
    imported.pointer = static_cast<char*>(memory) + (slot->offset - imported.offset);
    imported.file = std::move(file);
    *devPtr = imported.pointer;
    k.imports.emplace(reinterpret_cast<uintptr_t>(memory), std::move(imported));
    return ACL_SUCCESS;
  });
}

aclError aclrtIpcMemClose(const char* key) {
  return call("aclrtIpcMemClose", [&]() -> aclError {
    if (key == nullptr) {
      return bad("aclrtIpcMemClose", "the key is null");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    Keys& k = keys();
    std::unique_lock lock(k.mutex);
    for (auto found = k.imports.begin(); found != k.imports.end(); ++found) {
      if (found->second.key == key) {
        if (--found->second.uses == 0) {
          ::munmap(reinterpret_cast<void*>(found->first), found->second.size);
          k.imports.erase(found);
        }
        return ACL_SUCCESS;
      }
    }
    const auto exported = k.exports.find(key);
    if (exported == k.exports.end()) {
      return bad("aclrtIpcMemClose", "the key is neither imported nor exported here");
    }
    releaseSlot(exported->second);
    k.exports.erase(exported);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
