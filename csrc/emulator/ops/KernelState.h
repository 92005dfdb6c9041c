// The state of a thread while it runs a kernel.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace npu_emulator::ops {

// Note [State of the thread that runs a kernel]
// A kernel runs on the stream's own thread or on a host thread that waits for the stream, which may
// be inside inference mode, autocast, a Python dispatch mode or a functorch level, and may have
// another number of intra-op threads. None of that may reach a kernel: its result would depend on
// who ran it. So every run sets the same state and puts the old one back.
class KernelState {
 public:
  KernelState()
      : keys_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect), excludedKeys()),
        autograd_(c10::AutogradState::get_tls_state()),
        threads_(at::get_num_threads()) {
    c10::AutogradState::set_tls_state(c10::AutogradState(
        /*grad_mode=*/false, /*inference_mode=*/false, /*fw_grad_mode=*/false,
        /*multithreading_enabled=*/true));
    if (threads_ != processThreads()) {
      at::set_num_threads(processThreads());
    }
  }

  ~KernelState() {
    if (threads_ != processThreads()) {
      at::set_num_threads(threads_);
    }
    c10::AutogradState::set_tls_state(autograd_);
  }

  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;

  // Fixed by the first caller, which the loading of this library makes sure is not a worker.
  static int processThreads() {
    static const int threads = at::get_num_threads();
    return threads;
  }

 private:
  static c10::DispatchKeySet excludedKeys() {
    return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
        c10::DispatchKeySet(c10::DispatchKey::Python) |
        c10::DispatchKeySet(c10::DispatchKey::PythonTLSSnapshot);
  }

  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutogradState autograd_;
  int threads_;
};

}  // namespace npu_emulator::ops
