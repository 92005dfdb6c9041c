// `_C._testing`: what tests need to see or to hold still. No part of the package uses it.
#include <torch/csrc/Exceptions.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cann/Acl.h"
#include "python/Bindings.h"
#include "runtime/BlockPool.h"
#include "runtime/HostAllocator.h"
#include "runtime/Stream.h"

namespace torch_npu::python {

namespace py = pybind11;
using torch::wrap_pybind_function;

namespace {

// Stops a stream until it is opened: what is enqueued behind it has certainly not run.
class Gate {
 public:
  ~Gate() {
    open();
  }

  void block(c10::Stream stream) {
    auto reference = std::make_unique<std::shared_ptr<State>>(state_);
    cann::aclrtLaunchHostFunc.check(NPUStream(stream).handle(), &Gate::wait, reference.get());
    reference.release();  // owned by the task now
  }

  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

  // Until the stream stands at the gate.
  void waitReached() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->reached; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    bool reached = false;
  };

  static void wait(void* argument) {
    const std::unique_ptr<std::shared_ptr<State>> reference(
        static_cast<std::shared_ptr<State>*>(argument));
    State& state = **reference;
    std::unique_lock lock(state.mutex);
    state.reached = true;
    state.changed.notify_all();
    state.changed.wait(lock, [&] { return state.open; });
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// BlockPool by addresses instead of pointers.
class PoolDriver {
 public:
  PoolDriver(size_t largeSegment, size_t maxSplit, size_t maxNonSplitRounding)
      : pool_(0, {largeSegment, maxSplit, maxNonSplitRounding}) {}

  std::optional<uintptr_t> take(size_t bytes, c10::StreamId stream) {
    Block* block = pool_.take(BlockPool::roundSize(bytes), bytes, stream);
    if (block == nullptr) {
      return std::nullopt;
    }
    held_[block->address] = block;
    return block->address;
  }

  // Adds the segment that a request of `bytes` would ask for; returns its size.
  size_t attach(uintptr_t base, size_t bytes, c10::StreamId stream) {
    const size_t rounded = BlockPool::roundSize(bytes);
    const size_t size = pool_.segmentSize(rounded);
    pool_.attach({base, size, stream, BlockPool::isSmall(rounded)});
    return size;
  }

  void release(uintptr_t address) {
    pool_.release(held_.at(address));
  }

  void reclaim(uintptr_t address) {
    Block* block = held_.at(address);
    held_.erase(address);
    pool_.reclaim(block);
  }

  std::optional<std::pair<uintptr_t, size_t>> find(uintptr_t address) const {
    const Block* block = pool_.find(address);
    if (block == nullptr) {
      return std::nullopt;
    }
    return std::make_pair(block->address, block->size);
  }

  // (address, size, allocated, active) of every block
  std::vector<std::tuple<uintptr_t, size_t, bool, bool>> blocks() const {
    std::vector<std::tuple<uintptr_t, size_t, bool, bool>> result;
    for (const auto& segment : pool_.snapshot()) {
      uintptr_t address = segment.address;
      for (const auto& block : segment.blocks) {
        result.emplace_back(address, block.size, block.allocated, block.active);
        address += block.size;
      }
    }
    return result;
  }

  // current values, (all, small, large)
  std::unordered_map<std::string, std::array<int64_t, 3>> stats() {
    const auto& s = pool_.stats();
    const auto current = [](const c10::CachingAllocator::StatArray& stat) {
      return std::array<int64_t, 3>{stat[0].current, stat[1].current, stat[2].current};
    };
    return {{"allocation", current(s.allocation)},
            {"segment", current(s.segment)},
            {"active", current(s.active)},
            {"inactive_split", current(s.inactive_split)},
            {"allocated_bytes", current(s.allocated_bytes)},
            {"reserved_bytes", current(s.reserved_bytes)},
            {"active_bytes", current(s.active_bytes)},
            {"inactive_split_bytes", current(s.inactive_split_bytes)},
            {"requested_bytes", current(s.requested_bytes)}};
  }

  using Ranges = std::vector<std::pair<uintptr_t, size_t>>;
  Ranges detachIdle() {
    return ranges(pool_.detachIdle());
  }
  Ranges detachOld(size_t bytes) {
    return ranges(pool_.detachOld(bytes));
  }
  Ranges detachOversize(size_t bytes) {
    return ranges(pool_.detachOversize(bytes));
  }

  void checkInvariants() const {
    pool_.checkInvariants();
  }

 private:
  static Ranges ranges(const std::vector<DetachedSegment>& segments) {
    Ranges result;
    for (const auto& segment : segments) {
      result.emplace_back(segment.base, segment.size);
    }
    return result;
  }

  BlockPool pool_;
  std::unordered_map<uintptr_t, Block*> held_;
};

}  // namespace

void bindTesting(py::module_& module) {
  py::module_ m = module.def_submodule("_testing", "For this package's own tests.");

  py::class_<Gate>(m, "Gate")
      .def(py::init<>())
      .def("block", &Gate::block, py::arg("stream"), py::call_guard<py::gil_scoped_release>())
      .def("open", &Gate::open)
      .def("wait_reached", &Gate::waitReached, py::call_guard<py::gil_scoped_release>());

  py::class_<PoolDriver>(m, "BlockPool")
      .def(py::init<size_t, size_t, size_t>(), py::arg("large_segment") = size_t{20} << 20,
           py::arg("max_split") = SIZE_MAX, py::arg("max_non_split_rounding") = size_t{20} << 20)
      .def("take", &PoolDriver::take, py::arg("bytes"), py::arg("stream") = 0)
      .def("attach", &PoolDriver::attach, py::arg("base"), py::arg("bytes"), py::arg("stream") = 0)
      .def("release", &PoolDriver::release)
      .def("reclaim", &PoolDriver::reclaim)
      .def("find", &PoolDriver::find)
      .def("blocks", &PoolDriver::blocks)
      .def("stats", &PoolDriver::stats)
      .def("detach_idle", &PoolDriver::detachIdle)
      .def("detach_old", &PoolDriver::detachOld)
      .def("detach_oversize", &PoolDriver::detachOversize)
      .def("check_invariants", &PoolDriver::checkInvariants);

  m.def("is_pinned_address", [](uintptr_t address) {
    return isPinned(reinterpret_cast<const void*>(address));
  });
}

}  // namespace torch_npu::python
