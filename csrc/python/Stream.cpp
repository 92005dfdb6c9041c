#include "runtime/Stream.h"

#include <torch/csrc/Exceptions.h>

#include "python/Bindings.h"
#include "runtime/Event.h"

namespace torch_npu::python {

namespace py = pybind11;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

namespace {

// `event_id` of a torch.Event of this device type: what the guard stored at its first record.
const NPUEvent& recorded(uintptr_t eventId) {
  TORCH_CHECK_VALUE(eventId != 0, "the event was not recorded yet");
  return *reinterpret_cast<const NPUEvent*>(eventId);
}

}  // namespace

void bindStream(py::module_& m) {
  m.def("default_stream", wrap_pybind_function([](int device) -> c10::Stream {
          return getDefaultStream(device);
        }),
        py::arg("device") = -1);
  m.def("current_stream", wrap_pybind_function([](int device) -> c10::Stream {
          return getCurrentStream(device);
        }),
        py::arg("device") = -1);
  m.def("new_stream", wrap_pybind_function([](int device, int priority) -> c10::Stream {
          return getNewStream(device, priority);
        }),
        py::arg("device") = -1, py::arg("priority") = 0);
  m.def("external_stream", wrap_pybind_function([](uintptr_t handle, int device) -> c10::Stream {
          return getExternalStream(reinterpret_cast<aclrtStream>(handle), device);
        }),
        py::arg("handle"), py::arg("device") = -1);
  m.def("set_current_stream", wrap_pybind_function([](c10::Stream stream) {
          setCurrentStream(NPUStream(stream));
        }),
        py::arg("stream"));
  m.def("stream_priority", wrap_pybind_function([](c10::Stream stream) {
          return NPUStream(stream).priority();
        }),
        py::arg("stream"));
  // Created at this call if it was not yet, which may start the device.
  m.def("stream_handle", wrap_pybind_function_no_gil([](c10::Stream stream) {
          return reinterpret_cast<uintptr_t>(NPUStream(stream).handle());
        }),
        py::arg("stream"));

  m.def("event_elapsed_time", wrap_pybind_function([](uintptr_t start, uintptr_t end) {
          return recorded(start).elapsedTime(recorded(end));
        }),
        py::arg("start"), py::arg("end"));
  m.def("event_handle", wrap_pybind_function([](uintptr_t event) {
          return reinterpret_cast<uintptr_t>(recorded(event).handle());
        }),
        py::arg("event"));
}

}  // namespace torch_npu::python
