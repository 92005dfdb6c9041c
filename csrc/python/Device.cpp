#include "runtime/Device.h"

#include <torch/csrc/Exceptions.h>

#include <atomic>
#include <string>
#include <type_traits>

#include "cann/Env.h"
#include "cann/Library.h"
#include "python/Bindings.h"

namespace torch_npu::python {

namespace py = pybind11;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

namespace {

// The loader marks the environment so that child processes do not announce the emulator again, but
// Python starts children with its own copy of the environment.
void markPythonEnvironment() {
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_relaxed) || !cann::env::flag("TORCH_NPU_EMULATOR_ANNOUNCED")) {
    return;
  }
  py::module_::import("os").attr("environ")["TORCH_NPU_EMULATOR_ANNOUNCED"] = "1";
  done = true;
}

// Binds a function that may be the first to load CANN.
template <class Function>
auto loading(Function function) {
  return torch::wrap_pybind_function([function]() {
    if constexpr (std::is_void_v<decltype(function())>) {
      {
        const py::gil_scoped_release noGil;
        function();
      }
      markPythonEnvironment();
    } else {
      const auto result = [&] {
        const py::gil_scoped_release noGil;
        return function();
      }();
      markPythonEnvironment();
      return result;
    }
  });
}

// Asked by the launcher, which announces the emulator for all the ranks that it starts.
std::string providerName() {
  cann::announceEmulator();
  return cann::provider() == cann::Provider::Emulator ? "emulator" : "cann";
}

std::string describe(const DeviceProperties& properties) {
  return "NPUDeviceProperties(name='" + properties.name +
         "', total_memory=" + std::to_string(properties.totalMemory >> 20) +
         "MB, cube_core_num=" + std::to_string(properties.cubeCoreCount) +
         ", vector_core_num=" + std::to_string(properties.vectorCoreCount) +
         ", L2_cache_size=" + std::to_string(properties.l2CacheSize >> 20) + "MB, uuid='" +
         properties.uuid + "')";
}

}  // namespace

void bindDevice(py::module_& m) {
  py::class_<DeviceProperties>(m, "NPUDeviceProperties")
      .def_readonly("name", &DeviceProperties::name)
      .def_readonly("total_memory", &DeviceProperties::totalMemory)
      .def_readonly("cube_core_num", &DeviceProperties::cubeCoreCount)
      .def_readonly("vector_core_num", &DeviceProperties::vectorCoreCount)
      .def_readonly("L2_cache_size", &DeviceProperties::l2CacheSize)
      .def_readonly("uuid", &DeviceProperties::uuid)
      .def("__repr__", &describe);

  m.def("provider", loading(&providerName));
  m.def("provider_path", loading(&cann::providerPath));
  m.def("cann_version", loading(&cann::cannVersion));

  m.def("device_count", loading([] { return deviceCount(); }));
  m.def("device_count_or_raise", loading(&requireDevices));
  m.def("current_device", wrap_pybind_function(&currentDevice));
  m.def("set_device", wrap_pybind_function_no_gil(&setDevice), py::arg("device"));
  m.def("exchange_device", wrap_pybind_function_no_gil(&exchangeDevice), py::arg("device"));
  m.def("initialize", loading(&initialize));
  m.def("is_initialized", wrap_pybind_function(&isInitialized));
  m.def("is_in_bad_fork", wrap_pybind_function(&isInBadFork));
  m.def("has_primary_context", wrap_pybind_function(&hasPrimaryContext), py::arg("device"));
  m.def("synchronize", wrap_pybind_function_no_gil(&synchronizeDevice), py::arg("device") = -1);
  m.def("device_properties", wrap_pybind_function_no_gil(&deviceProperties),
        py::arg("device") = -1);
  m.def("memory_info", wrap_pybind_function_no_gil(&memoryInfo), py::arg("device") = -1);
  m.def("can_access_peer", wrap_pybind_function_no_gil(&canAccessPeer), py::arg("device"),
        py::arg("peer"));
}

}  // namespace torch_npu::python
