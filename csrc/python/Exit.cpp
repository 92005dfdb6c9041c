// The end of the process, while the interpreter still lives.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "python/Bindings.h"
#include "runtime/Device.h"

namespace torch_npu::python {

namespace {

using namespace std::chrono_literals;

bool hasAutogradThreads() {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.starts_with("pt_autograd")) {
      return true;
    }
  }
  return false;
}

// Note [Autograd threads at exit]
// One of autograd's device threads may still be releasing the graph of the last backward when the
// main thread leaves. If it asks for the interpreter lock after finalisation began, CPython ends it
// by a forced unwind, which meets a noexcept frame and aborts the process. So the engine is told to
// end its threads here, with the lock released: each finishes what it is doing and takes the lock
// once more to delete its thread state. The engine does not wait for that last step; this does.
void endAutogradThreads() {
  if (!hasAutogradThreads()) {
    return;
  }
  torch::autograd::Engine::get_default_engine().stop();
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (hasAutogradThreads() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
}

void drainAtExit() {
  if (isInBadFork()) {
    return;
  }
  endAutogradThreads();
  drain();
}

}  // namespace

void bindExit(pybind11::module_& m) {
  m.def("drain", torch::wrap_pybind_function_no_gil(&drainAtExit));
}

}  // namespace torch_npu::python
