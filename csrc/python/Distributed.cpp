// The process group for Python. Its base classes are bound by torch, so torch._C._distributed_c10d
// must be loaded first; the names are those under which user code looks for the group.
#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distributed/ProcessGroupHCCL.h"
#include "python/Bindings.h"

namespace py = pybind11;

namespace torch_npu::python {
namespace {

using distributed::ProcessGroupHCCL;
using Options = ProcessGroupHCCL::Options;
using std::chrono::milliseconds;

template <class T>
using Class = py::class_<T, c10::intrusive_ptr<T>>;

// Communicator settings as a dict, the form that users know: {"hccl_buffer_size": 200} in MiB.
constexpr const char* kBufferSize = "hccl_buffer_size";

py::dict hcclConfig(const Options& options) {
  py::dict config;
  if (options.hcclBufferSize != 0) config[kBufferSize] = options.hcclBufferSize;
  return config;
}

void setHcclConfig(Options& options, const py::dict& config) {
  uint32_t bufferSize = 0;
  for (const auto& [key, value] : config) {
    const auto name = py::cast<std::string>(key);
    TORCH_CHECK_VALUE(
        name == kBufferSize, "hccl_config: unknown key '", name, "', expected '", kBufferSize,
        "' (MiB)");
    const auto size = py::cast<int64_t>(value);
    TORCH_CHECK_VALUE(
        size >= 1 && size <= UINT32_MAX, "hccl_config['", kBufferSize,
        "']: expected MiB from 1, got ", size);
    bufferSize = static_cast<uint32_t>(size);
  }
  options.hcclBufferSize = bufferSize;
}

// A Python callable for C++ threads that do not hold the interpreter lock.
ProcessGroupHCCL::CpuBackendFactory factoryOf(py::object callable) {
  if (callable.is_none()) return {};
  const std::shared_ptr<py::object> held(
      new py::object(std::move(callable)), [](py::object* object) {
        py::gil_scoped_acquire gil;
        delete object;
      });
  return [held](c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout) {
    py::gil_scoped_acquire gil;
    const py::object made = (*held)(std::move(store), rank, size, timeout);
    return made.cast<c10::intrusive_ptr<c10d::Backend>>();
  };
}

void bindOptions(py::object& scope, const py::object& base) {
  py::class_<Options, c10::intrusive_ptr<Options>>(scope, "Options", base)
      .def(
          py::init([](bool highPriority) {
            auto options = c10::make_intrusive<Options>();
            options->highPriorityStream = highPriority;
            return options;
          }),
          py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &Options::highPriorityStream)
      .def_property("hccl_config", &hcclConfig, &setHcclConfig)
      .def_property(
          "op_timeout", [](const Options& options) { return options.timeout; },
          [](Options& options, milliseconds timeout) { options.timeout = timeout; })
      .def("__copy__", [](const Options& options) { return c10::make_intrusive<Options>(options); })
      .def(
          "__deepcopy__",
          [](const Options& options, const py::dict&) {
            return c10::make_intrusive<Options>(options);
          },
          py::arg("memo"));
}

}  // namespace

void bindDistributed(py::module_& m) {
  const py::object base = py::module_::import("torch._C._distributed_c10d").attr("Backend");
  py::module_ names = m.def_submodule("_distributed_c10d");
  py::module_::import("sys").attr("modules")[names.attr("__name__")] = names;

  Class<ProcessGroupHCCL> group(names, "ProcessGroupHCCL", base);
  bindOptions(group, base.attr("Options"));
  group
      .def(
          py::init([](c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                      c10::intrusive_ptr<Options> options, py::object cpuBackend) {
            auto factory = factoryOf(std::move(cpuBackend));
            py::gil_scoped_release release;
            return c10::make_intrusive<ProcessGroupHCCL>(
                std::move(store), rank, size, std::move(options), std::move(factory));
          }),
          py::arg("store"), py::arg("rank"), py::arg("size"),
          py::arg("options") = c10::intrusive_ptr<Options>(), py::arg("cpu_backend") = py::none())
      .def_property_readonly("options", &ProcessGroupHCCL::options)
      // Ranks outside a new group call this where splitting is a collective of the parent; ours is
      // not.
      .def(
          "perform_nocolor_split", [](ProcessGroupHCCL&, const py::object&) {}, py::arg("device"))
      .def(
          "get_hccl_comm_name", &ProcessGroupHCCL::communicatorName, py::arg("device"),
          py::call_guard<py::gil_scoped_release>())
      .def("get_error", &ProcessGroupHCCL::getError)
      .def(
          "_wait_for_pending_works", &ProcessGroupHCCL::waitForPendingWorks,
          py::call_guard<py::gil_scoped_release>())
      .def("_enable_collectives_timing", &ProcessGroupHCCL::enableCollectivesTiming)
      .def("_set_default_timeout", &ProcessGroupHCCL::setTimeout, py::arg("timeout"));
}

}  // namespace torch_npu::python
