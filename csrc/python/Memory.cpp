#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "python/Bindings.h"
#include "runtime/CachingAllocator.h"
#include "runtime/Device.h"
#include "runtime/HostAllocator.h"

namespace torch_npu::python {

namespace py = pybind11;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

namespace {

// Memory that Python asked for by address rather than as a tensor.
class RawAllocations {
 public:
  uintptr_t allocate(size_t bytes, int device, std::optional<c10::Stream> stream) {
    c10::DataPtr memory = allocateOnStream(
        bytes, stream.has_value() ? NPUStream(*stream) : getCurrentStream(device));
    const auto address = reinterpret_cast<uintptr_t>(memory.get());
    std::lock_guard lock(mutex_);
    live_.insert_or_assign(address, std::move(memory));
    return address;
  }

  void free(uintptr_t address) {
    c10::DataPtr memory;
    std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    TORCH_CHECK_VALUE(found != live_.end(), "caching_allocator_delete: address ", address,
                      " did not come from caching_allocator_alloc, or was deleted already");
    memory = std::move(found->second);
    live_.erase(found);
  }

 private:
  std::mutex mutex_;  // guards live_
  std::unordered_map<uintptr_t, c10::DataPtr> live_;
};

RawAllocations& rawAllocations() {
  static auto* const allocations = new RawAllocations;
  return *allocations;
}

// The dictionaries that torch's memory visualiser reads.
py::list snapshotSegments() {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
  {
    py::gil_scoped_release noGil;
    segments = memorySnapshot();
  }
  py::list result;
  for (const auto& segment : segments) {
    py::dict entry;
    entry["device"] = static_cast<int>(segment.device);
    entry["address"] = segment.address;
    entry["total_size"] = segment.total_size;
    entry["allocated_size"] = segment.allocated_size;
    entry["active_size"] = segment.active_size;
    entry["requested_size"] = segment.requested_size;
    entry["stream"] = reinterpret_cast<uintptr_t>(segment.stream);
    entry["segment_type"] = segment.is_large ? "large" : "small";
    entry["segment_pool_id"] = segment.owner_private_pool_id;
    entry["is_expandable"] = segment.is_expandable;
    entry["frames"] = py::list();
    py::list blocks;
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      py::dict part;
      part["address"] = address;
      part["size"] = block.size;
      part["requested_size"] = block.requested_size;
      part["state"] = block.allocated ? "active_allocated"
                      : block.active  ? "active_pending_free"
                                      : "inactive";
      part["frames"] = py::list();
      blocks.append(part);
      address += block.size;
    }
    entry["blocks"] = blocks;
    result.append(entry);
  }
  return result;
}

py::dict statDict(const c10::CachingAllocator::Stat& stat) {
  py::dict entry;
  entry["current"] = stat.current;
  entry["peak"] = stat.peak;
  entry["allocated"] = stat.allocated;
  entry["freed"] = stat.freed;
  return entry;
}

py::dict durationDict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict entry;  // microseconds
  entry["total"] = stat.total;
  entry["max"] = stat.max;
  entry["min"] = stat.min;
  entry["count"] = stat.count;
  const auto count = static_cast<double>(std::max<int64_t>(stat.count, 1));
  entry["avg"] = static_cast<double>(stat.total) / count;
  return entry;
}

py::dict hostStats() {
  const at::HostStats stats = hostAllocator()->get_stats();
  py::dict result;
  result["active_requests"] = statDict(stats.active_requests);
  result["active_bytes"] = statDict(stats.active_bytes);
  result["allocations"] = statDict(stats.allocations);
  result["allocated_bytes"] = statDict(stats.allocated_bytes);
  result["host_alloc_time"] = durationDict(stats.host_alloc_time);
  result["host_free_time"] = durationDict(stats.host_free_time);
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

}  // namespace

void bindMemory(py::module_& m) {
  m.def("empty_cache", wrap_pybind_function_no_gil(&emptyCache), py::arg("device") = -1);
  m.def("memory_fraction", wrap_pybind_function(&memoryFraction), py::arg("device"));
  m.def("set_memory_fraction", wrap_pybind_function_no_gil(&setMemoryFraction),
        py::arg("fraction"), py::arg("device"));
  m.def("memory_snapshot", wrap_pybind_function(&snapshotSegments));
  m.def("raw_allocate",
        wrap_pybind_function_no_gil(
            [](size_t bytes, int device, std::optional<c10::Stream> stream) {
              return rawAllocations().allocate(bytes, device, stream);
            }),
        py::arg("bytes"), py::arg("device") = -1, py::arg("stream") = py::none());
  m.def("raw_free",
        wrap_pybind_function_no_gil([](uintptr_t address) { rawAllocations().free(address); }),
        py::arg("address"));

  m.def("host_empty_cache",
        wrap_pybind_function_no_gil([]() { hostAllocator()->empty_cache(); }));
  m.def("host_memory_stats", wrap_pybind_function(&hostStats));
  m.def("host_reset_accumulated_stats",
        wrap_pybind_function([]() { hostAllocator()->reset_accumulated_stats(); }));
  m.def("host_reset_peak_stats",
        wrap_pybind_function([]() { hostAllocator()->reset_peak_stats(); }));
}

}  // namespace torch_npu::python
