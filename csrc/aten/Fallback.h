// Operators without an npu kernel run on the CPU: right, counted, and slow. See Note [CPU
// fallback].
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace torch_npu::aten {

// To be called by whatever computes on the CPU instead of on the device: counts, warns at the first
// time of each operator, raises NotImplementedError under TORCH_NPU_FALLBACK_CPU_DISABLE=1.
void noteFallback(const std::string& operatorName);

// Calls so far by operator, as "aten::name.overload".
std::map<std::string, uint64_t> fallbackCounts();
// Forgets the counts; operators that warned already stay silent.
void resetFallbackCounts();

// Thread state in which CPU kernels stand in for npu ones: no autograd, no autocast of the CPU.
class HostKernelScope {
 public:
  HostKernelScope();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

// The kernel of every operator that has none, for device npu.
void cpuFallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace torch_npu::aten
