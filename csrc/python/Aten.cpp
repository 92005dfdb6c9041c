// Bindings of aten: the report of the CPU fallback.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/Fallback.h"
#include "python/Bindings.h"

namespace torch_npu::python {

void bindAten(pybind11::module_& m) {
  m.def(
      "cpu_fallback_counts", &aten::fallbackCounts,
      "Calls that ran on the CPU for want of an npu kernel, by operator, as aten::name.overload.");
  m.def("reset_cpu_fallback_counts", &aten::resetFallbackCounts, "Forgets the counts.");
}

}  // namespace torch_npu::python
