// Softmax, its logarithm and their gradients.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/logsumexp.h>

namespace npu_emulator::ops {

Work Softmax(Tensor self, int64_t dim, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    const ScalarType type = c10::promoteTypes(self.scalar_type(), out.scalar_type());
    writeExactly(out, type, [&](Tensor& target) {
      at::_softmax_out(target, self.to(type), dim, /*half_to_float=*/false);
    });
  };
}

Work LogSoftmax(Tensor self, int64_t dim, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    const ScalarType type = c10::promoteTypes(self.scalar_type(), out.scalar_type());
    writeExactly(out, type, [&](Tensor& target) {
      at::_log_softmax_out(target, self.to(type), dim, /*half_to_float=*/false);
    });
  };
}

Work SoftmaxBackward(Tensor gradOutput, Tensor output, int64_t dim, Tensor out) {
  dim = wrapDim(dim, output.dim());
  expectSameSizes("gradOutput", gradOutput, "output", output);
  expectSameSizes("out", out, "output", output);
  return [=]() mutable {
    const ScalarType type = c10::promoteTypes(gradOutput.scalar_type(), output.scalar_type());
    writeExactly(out, type, [&](Tensor& target) {
      at::_softmax_backward_data_out(target, gradOutput.to(type), output.to(type), dim, type);
    });
  };
}

Work LogSoftmaxBackward(Tensor gradOutput, Tensor output, int64_t dim, Tensor out) {
  dim = wrapDim(dim, output.dim());
  expectSameSizes("gradOutput", gradOutput, "output", output);
  expectSameSizes("out", out, "output", output);
  return [=]() mutable {
    const ScalarType type = c10::promoteTypes(gradOutput.scalar_type(), output.scalar_type());
    writeExactly(out, type, [&](Tensor& target) {
      at::_log_softmax_backward_data_out(target, gradOutput.to(type), output.to(type), dim, type);
    });
  };
}

Work LogSumExp(Tensor self, Ints dim, bool keepDim, Tensor out) {
  dim = reducedDims(dim, self.dim());
  expectSizes("out", out, reducedSizes(self.sizes(), dim, keepDim));
  return [=] { out.copy_(at::logsumexp(self, dim, keepDim)); };
}

}  // namespace npu_emulator::ops
