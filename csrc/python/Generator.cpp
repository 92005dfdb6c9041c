#include "runtime/Generator.h"

#include <torch/csrc/Exceptions.h>

#include "python/Bindings.h"

namespace torch_npu::python {

void bindGenerator(pybind11::module_& m) {
  m.def("default_generator", torch::wrap_pybind_function([](int device) -> at::Generator {
          return getDefaultGenerator(device);
        }),
        pybind11::arg("device") = -1);
  m.def("seed_all_generators", torch::wrap_pybind_function(&seedDefaultGenerators),
        pybind11::arg("seed"));
}

}  // namespace torch_npu::python
