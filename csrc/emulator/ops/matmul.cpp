// Products of matrices and vectors. cubeMathType chooses a precision of the hardware's matrix unit;
// here it has no meaning.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/addbmm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmv.h>
#include <ATen/ops/addr.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/result_type.h>

#include <sstream>

namespace npu_emulator::ops {

namespace {

[[noreturn]] void refuseProduct(const Tensor& a, const Tensor& b) {
  std::ostringstream message;
  message << "shapes " << a.sizes() << " and " << b.sizes() << " cannot be multiplied";
  refuse(message.str());
}

void expectMatrices(const char* a, const Tensor& left, const char* b, const Tensor& right) {
  expectDim(a, left, 2);
  expectDim(b, right, 2);
  if (left.size(1) != right.size(0)) {
    refuseProduct(left, right);
  }
}

void expectBatches(const char* a, const Tensor& left, const char* b, const Tensor& right) {
  expectDim(a, left, 3);
  expectDim(b, right, 3);
  if (left.size(0) != right.size(0) || left.size(2) != right.size(1)) {
    refuseProduct(left, right);
  }
}

// Both operands in the type that they are multiplied in.
struct Operands {
  Operands(const Tensor& a, const Tensor& b)
      : type(at::result_type(a, b)), left(a.to(type)), right(b.to(type)) {}

  ScalarType type;
  Tensor left;
  Tensor right;
};

}  // namespace

Work Mm(Tensor self, Tensor mat2, Tensor out, int8_t /*cubeMathType*/) {
  expectMatrices("self", self, "mat2", mat2);
  expectSizes("out", out, {self.size(0), mat2.size(1)});
  return [=]() mutable {
    const Operands in(self, mat2);
    writeExactly(out, in.type, [&](Tensor& result) { at::mm_out(result, in.left, in.right); });
  };
}

Work BatchMatMul(Tensor self, Tensor mat2, Tensor out, int8_t /*cubeMathType*/) {
  expectDim("self", self, 3);
  expectDim("mat2", mat2, 3);
  const int64_t batch = broadcastSizes(self.sizes().slice(0, 1), mat2.sizes().slice(0, 1))[0];
  if (self.size(2) != mat2.size(1)) {
    refuseProduct(self, mat2);
  }
  expectSizes("out", out, {batch, self.size(1), mat2.size(2)});
  return [=]() mutable {
    const Operands in(self, mat2);
    writeExactly(out, in.type, [&](Tensor& result) {
      at::bmm_out(
          result, in.left.expand({batch, -1, -1}), in.right.expand({batch, -1, -1}));
    });
  };
}

Work Matmul(Tensor self, Tensor mat2, Tensor out, int8_t /*cubeMathType*/) {
  if (self.dim() == 0 || mat2.dim() == 0) {
    refuseProduct(self, mat2);
  }
  const bool vectorLeft = self.dim() == 1;
  const bool vectorRight = mat2.dim() == 1;
  if (self.size(-1) != mat2.size(vectorRight ? 0 : -2)) {
    refuseProduct(self, mat2);
  }
  const auto batch = [](const Tensor& tensor) {
    return tensor.sizes().slice(0, std::max<int64_t>(tensor.dim() - 2, 0));
  };
  std::vector<int64_t> expected = broadcastSizes(batch(self), batch(mat2));
  if (!vectorLeft) {
    expected.push_back(self.size(-2));
  }
  if (!vectorRight) {
    expected.push_back(mat2.size(-1));
  }
  expectSizes("out", out, expected);
  return [=]() mutable {
    const Operands in(self, mat2);
    writeExactly(out, in.type, [&](Tensor& result) { at::matmul_out(result, in.left, in.right); });
  };
}

Work Addmm(
    Tensor self, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, Tensor out,
    int8_t /*cubeMathType*/) {
  expectMatrices("mat1", mat1, "mat2", mat2);
  const std::vector<int64_t> product = {mat1.size(0), mat2.size(1)};
  expectSizes("out", out, product);
  expectSizes("self, once broadcast,", out, broadcastSizes(self.sizes(), product));
  return [=]() mutable {
    const Operands in(mat1, mat2);
    writeExactly(out, in.type, [&](Tensor& result) {
      at::addmm_out(result, self.to(in.type), in.left, in.right, beta, alpha);
    });
  };
}

Work InplaceAddmm(
    Tensor selfRef, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, int8_t cubeMathType) {
  return Addmm(selfRef, mat1, mat2, beta, alpha, selfRef, cubeMathType);
}

Work Baddbmm(
    Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha, Tensor out,
    int8_t /*cubeMathType*/) {
  expectBatches("batch1", batch1, "batch2", batch2);
  const std::vector<int64_t> product = {batch1.size(0), batch1.size(1), batch2.size(2)};
  expectSizes("out", out, product);
  expectSizes("self, once broadcast,", out, broadcastSizes(self.sizes(), product));
  return [=]() mutable {
    const Operands in(batch1, batch2);
    writeExactly(out, in.type, [&](Tensor& result) {
      at::baddbmm_out(result, self.to(in.type), in.left, in.right, beta, alpha);
    });
  };
}

Work Addbmm(
    Tensor self, Tensor batch1, Tensor batch2, Scalar beta, Scalar alpha, Tensor out,
    int8_t /*cubeMathType*/) {
  expectBatches("batch1", batch1, "batch2", batch2);
  const std::vector<int64_t> product = {batch1.size(1), batch2.size(2)};
  expectSizes("out", out, product);
  expectSizes("self, once broadcast,", out, broadcastSizes(self.sizes(), product));
  return [=]() mutable {
    const Operands in(batch1, batch2);
    writeExactly(out, in.type, [&](Tensor& result) {
      at::addbmm_out(result, self.to(in.type), in.left, in.right, beta, alpha);
    });
  };
}

Work Mv(Tensor self, Tensor vec, Tensor out, int8_t /*cubeMathType*/) {
  expectDim("self", self, 2);
  expectDim("vec", vec, 1);
  if (self.size(1) != vec.size(0)) {
    refuseProduct(self, vec);
  }
  expectSizes("out", out, {self.size(0)});
  return [=]() mutable {
    const Operands in(self, vec);
    writeExactly(out, in.type, [&](Tensor& result) { at::mv_out(result, in.left, in.right); });
  };
}

Work Addmv(
    Tensor self, Tensor mat, Tensor vec, Scalar alpha, Scalar beta, Tensor out,
    int8_t /*cubeMathType*/) {
  expectDim("mat", mat, 2);
  expectDim("vec", vec, 1);
  if (mat.size(1) != vec.size(0)) {
    refuseProduct(mat, vec);
  }
  expectSizes("out", out, {mat.size(0)});
  expectSizes("self, once broadcast,", out, broadcastSizes(self.sizes(), out.sizes()));
  return [=]() mutable {
    const Operands in(mat, vec);
    writeExactly(out, in.type, [&](Tensor& result) {
      at::addmv_out(result, self.to(in.type), in.left, in.right, beta, alpha);
    });
  };
}

Work Addr(
    Tensor self, Tensor vec1, Tensor vec2, OptionalScalar betaOptional,
    OptionalScalar alphaOptional, Tensor out) {
  expectDim("vec1", vec1, 1);
  expectDim("vec2", vec2, 1);
  expectSizes("out", out, {vec1.size(0), vec2.size(0)});
  expectSizes("self, once broadcast,", out, broadcastSizes(self.sizes(), out.sizes()));
  return [=]() mutable {
    out.copy_(at::addr(self, vec1, vec2, betaOptional.value_or(1), alphaOptional.value_or(1)));
  };
}

Work InplaceAddr(
    Tensor selfRef, Tensor vec1, Tensor vec2, OptionalScalar betaOptional,
    OptionalScalar alphaOptional) {
  return Addr(selfRef, vec1, vec2, betaOptional, alphaOptional, selfRef);
}

Work Dot(Tensor self, Tensor tensor, Tensor out) {
  expectDim("self", self, 1);
  expectSameSizes("tensor", tensor, "self", self);
  expectSizes("out", out, {});
  return [=]() mutable {
    const Operands in(self, tensor);
    writeExactly(out, in.type, [&](Tensor& result) { at::dot_out(result, in.left, in.right); });
  };
}

}  // namespace npu_emulator::ops
