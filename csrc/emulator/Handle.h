// Opaque handles that can be checked. The memory behind a handle is never given back, only used
// again for handles of the same kind, so that a stale handle is an error and not undefined.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace npu_emulator {

template <class T>
class HandleTable {
 public:
  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    Slot* slot = nullptr;
    if (unused_.empty()) {
      slot = new Slot;
      all_.push_back(slot);
    } else {
      slot = unused_.back();
      unused_.pop_back();
    }
    slot->object = std::move(object);
    slot->tag.store(tag(), std::memory_order_release);
    return slot;
  }

  // Null for something that is no live handle of this table.
  std::shared_ptr<T> find(void* handle) const {
    auto* slot = static_cast<Slot*>(handle);
    if (slot == nullptr || reinterpret_cast<uintptr_t>(slot) % alignof(Slot) != 0 ||
        slot->tag.load(std::memory_order_acquire) != tag()) {
      return nullptr;
    }
    return slot->object;
  }

  std::shared_ptr<T> remove(void* handle) {
    std::shared_ptr<T> object = find(handle);
    if (object != nullptr) {
      std::lock_guard lock(mutex_);
      release(static_cast<Slot*>(handle));
    }
    return object;
  }

  std::vector<std::shared_ptr<T>> objects() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (Slot* slot : all_) {
      if (slot->object != nullptr) {
        result.push_back(slot->object);
      }
    }
    return result;
  }

  // Removes every object that `match` chooses, and returns them.
  template <class Match>
  std::vector<std::shared_ptr<T>> removeIf(Match match) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (Slot* slot : all_) {
      if (slot->object != nullptr && match(*slot->object)) {
        result.push_back(slot->object);
        release(slot);
      }
    }
    return result;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> tag{0};
    std::shared_ptr<T> object;
  };

  uint64_t tag() const { return 0x6e70750000000000u ^ reinterpret_cast<uintptr_t>(this); }

  void release(Slot* slot) {
    slot->tag.store(0, std::memory_order_release);
    slot->object.reset();
    unused_.push_back(slot);
  }

  mutable std::mutex mutex_;  // guards the lists; nothing else is locked under it
  std::vector<Slot*> all_;
  std::vector<Slot*> unused_;
};

}  // namespace npu_emulator
