// What each file of this folder adds to the module `_C`.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_npu::python {

void bindDevice(pybind11::module_& m);
void bindStream(pybind11::module_& m);
void bindMemory(pybind11::module_& m);
void bindGenerator(pybind11::module_& m);
void bindExit(pybind11::module_& m);
void bindTesting(pybind11::module_& m);
void bindAten(pybind11::module_& m);
void bindDistributed(pybind11::module_& m);

}  // namespace torch_npu::python
