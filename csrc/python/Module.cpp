#include "python/Bindings.h"

// Importing this module registers the backend with PyTorch (static registrations of libtorch_npu)
// and opens no CANN library.
PYBIND11_MODULE(_C, m) {
  using namespace torch_npu::python;
  m.doc() = "Bindings of libtorch_npu: convert, call, convert.";
  m.attr("built_for_torch") = NPU_BUILT_FOR_TORCH;
  bindDevice(m);
  bindStream(m);
  bindMemory(m);
  bindGenerator(m);
  bindExit(m);
  bindTesting(m);
  bindAten(m);
  bindDistributed(m);
}
