// Cells at the start of each device's memory file that other processes may map: state of events
// that are shared between processes, and descriptions of memory that is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "emulator/Abi.h"

namespace npu_emulator {

struct SharedSlot {
  static constexpr int kMaxPids = 16;
  enum Kind : uint32_t { Unused = 0, EventSlot = 1, MemorySlot = 2 };

  std::atomic<uint32_t> kind;
  uint32_t generation;               // tells a new use of the cell from an old key
  // Events: how often recorded, which of that is done, who recorded and when it was reached.
  std::atomic<uint32_t> recorded;
  std::atomic<uint32_t> completed;   // a futex
  std::atomic<int32_t> recorder;     // process id
  std::atomic<int32_t> error;
  std::atomic<uint64_t> timestamp;   // nanoseconds
  // Memory: where in the file, and who may import it.
  uint64_t offset;
  uint64_t size;
  std::atomic<uint32_t> anyPid;      // 1: every process of this user may import
  std::atomic<int32_t> pids[kMaxPids];
};
static_assert(sizeof(SharedSlot) <= 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t kSlotSize = 128;
constexpr uint64_t kSlotCount = 512;
constexpr uint64_t kSlotArea = kSlotSize * kSlotCount;

// Takes a cell of a device's file (device must be open), null after fail() when all are used.
SharedSlot* takeSlot(int device, SharedSlot::Kind kind);
void releaseSlot(SharedSlot* slot);

// A cell as other processes name it: process id, descriptor there, cell and its generation.
struct SlotKey {
  int32_t pid = 0;
  int32_t memfd = -1;
  uint32_t slot = 0;
  uint32_t generation = 0;
};
bool slotKey(int device, const SharedSlot* slot, SlotKey* key);
// In 64 bits for aclrtMemExportToShareableHandle; 0 after fail() when the numbers are too large.
uint64_t packKey(const SlotKey& key);
SlotKey unpackKey(uint64_t packed);
// As text of at most 64 characters.
std::string printKey(const char* prefix, const SlotKey& key);
bool scanKey(const char* prefix, const char* text, SlotKey* key);

// The file of another process (or this one) with its cells mapped.
struct ForeignFile {
  ~ForeignFile();
  int memfd = -1;
  char* slots = nullptr;
  SharedSlot* slot(const SlotKey& key, SharedSlot::Kind kind) const;  // null: gone
};
// Opens it through /proc, which needs the same user; null after fail().
std::shared_ptr<ForeignFile> openForeignFile(const SlotKey& key, const char* call);

// Who may import the memory that a cell describes.
bool mayImport(const SharedSlot& slot, int32_t pid);
aclError allowPids(SharedSlot& slot, const int32_t* pids, size_t count, const char* name);
aclError importRefused(const char* name);

}  // namespace npu_emulator
