#include "emulator/ops/DryRun.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include "emulator/ops/KernelState.h"

namespace npu_emulator::ops {

void CallTypes::add(const Tensor& tensor) {
  if (!tensor.defined()) {
    mix(kAbsent);
    return;
  }
  mix(static_cast<uint64_t>(tensor.scalar_type()));
  elements_ += tensor.numel();
}

void CallTypes::add(const Tensors& tensors) {
  for (const Tensor& tensor : tensors) {
    add(tensor);
  }
}

bool KnownTypes::contains(uint64_t hash) {
  std::lock_guard lock(mutex_);
  return hashes_.count(hash) != 0;
}

void KnownTypes::insert(uint64_t hash) {
  std::lock_guard lock(mutex_);
  hashes_.insert(hash);
}

Tensor standIn(const Tensor& tensor) {
  if (!tensor.defined()) {
    return tensor;
  }
  const bool whole = c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  return at::full(tensor.sizes(), whole ? 0 : 1, tensor.options());
}

Tensors standIn(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    result.push_back(standIn(tensor));
  }
  return result;
}

void dryRun(c10::function_ref<Work()> make) {
  try {
    const KernelState state;
    if (const Work work = make()) {
      work();
    }
  } catch (const c10::NotImplementedError& error) {
    refuse(error.what_without_backtrace());
  } catch (const Refusal&) {
    return;  // of a value, which is not the call's: see Note [Dry runs]
  } catch (const std::exception&) {
    return;  // the same
  }
}

}  // namespace npu_emulator::ops
