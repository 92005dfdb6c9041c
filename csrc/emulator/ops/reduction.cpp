// Reductions and scans.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/any.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/cummin.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/std.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/trace.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_mean.h>

namespace npu_emulator::ops {

namespace {

// Checks out against the shape that is left; gives the dimensions to reduce. An empty list is all.
Ints planReduction(const Tensor& self, const Ints& dims, bool keepDim, const Tensor& out) {
  Ints reduced = reducedDims(dims, self.dim());
  expectSizes("out", out, reducedSizes(self.sizes(), reduced, keepDim));
  return reduced;
}

void planReduction(const Tensor& self, int64_t dim, bool keepDim, const Tensor& out) {
  planReduction(self, Ints{dim}, keepDim, out);
}

void expectNotEmpty(const char* op, const Tensor& self) {
  if (self.numel() == 0) {
    refuse(std::string(op) + " of no elements is not defined");
  }
}

// Writes the two results of operators that give a value and its place.
void writePair(
    const std::tuple<Tensor, Tensor>& results, const Tensor& values, const Tensor& indices) {
  values.copy_(std::get<0>(results));
  indices.copy_(std::get<1>(results));
}

bool samePair(const Tensor& self, const Tensor& values, const Tensor& indices) {
  return values.scalar_type() == self.scalar_type() && indices.scalar_type() == at::kLong;
}

}  // namespace

Work ReduceSum(Tensor self, Ints dims, bool keepDims, ScalarType dtype, Tensor out) {
  dims = planReduction(self, dims, keepDims, out);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) {
      at::sum_out(target, self, dims, keepDims, dtype);
    });
  };
}

Work ReduceNansum(Tensor self, Ints dim, bool keepDim, ScalarType dtype, Tensor out) {
  dim = planReduction(self, dim, keepDim, out);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) {
      at::nansum_out(target, self, dim, keepDim, dtype);
    });
  };
}

Work Mean(Tensor self, Ints dim, bool keepDim, ScalarType dtype, Tensor out) {
  dim = planReduction(self, dim, keepDim, out);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) {
      at::mean_out(target, self, dim, keepDim, dtype);
    });
  };
}

Work Prod(Tensor self, ScalarType dtype, Tensor out) {
  expectSizes("out", out, {});
  return [=] { out.copy_(at::prod(self, dtype)); };
}

Work ProdDim(Tensor self, int64_t dim, bool keepDim, ScalarType dtype, Tensor out) {
  planReduction(self, dim, keepDim, out);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) {
      at::prod_out(target, self, dim, keepDim, dtype);
    });
  };
}

Work Max(Tensor self, Tensor out) {
  expectNotEmpty("max", self);
  expectSizes("out", out, {});
  return [=] { out.copy_(at::max(self)); };
}

Work Min(Tensor self, Tensor out) {
  expectNotEmpty("min", self);
  expectSizes("out", out, {});
  return [=] { out.copy_(at::min(self)); };
}

Work MaxDim(Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices) {
  planReduction(self, dim, keepdim, out);
  expectSameSizes("indices", indices, "out", out);
  return [=]() mutable {
    if (samePair(self, out, indices)) {
      at::max_out(out, indices, self, dim, keepdim);
    } else {
      writePair(at::max(self, dim, keepdim), out, indices);
    }
  };
}

Work MinDim(Tensor self, int64_t dim, bool keepdim, Tensor out, Tensor indices) {
  planReduction(self, dim, keepdim, out);
  expectSameSizes("indices", indices, "out", out);
  return [=]() mutable {
    if (samePair(self, out, indices)) {
      at::min_out(out, indices, self, dim, keepdim);
    } else {
      writePair(at::min(self, dim, keepdim), out, indices);
    }
  };
}

Work Amax(Tensor self, Ints dim, bool keepDim, Tensor out) {
  dim = planReduction(self, dim, keepDim, out);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::amax_out(target, self, dim, keepDim);
    });
  };
}

Work Amin(Tensor self, Ints dim, bool keepDim, Tensor out) {
  dim = planReduction(self, dim, keepDim, out);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::amin_out(target, self, dim, keepDim);
    });
  };
}

Work Aminmax(Tensor self, Ints dim, bool keepDim, Tensor minOut, Tensor maxOut) {
  dim = planReduction(self, dim, keepDim, minOut);
  expectSameSizes("maxOut", maxOut, "minOut", minOut);
  return [=] {
    minOut.copy_(at::amin(self, dim, keepDim));
    maxOut.copy_(at::amax(self, dim, keepDim));
  };
}

Work AminmaxAll(Tensor self, Tensor minOut, Tensor maxOut) {
  return Aminmax(self, {}, /*keepDim=*/false, minOut, maxOut);
}

Work AminmaxDim(Tensor self, int64_t dim, bool keepDim, Tensor minOut, Tensor maxOut) {
  return Aminmax(self, {dim}, keepDim, minOut, maxOut);
}

Work ArgMax(Tensor self, int64_t dim, bool keepdim, Tensor out) {
  planReduction(self, dim, keepdim, out);
  return [=]() mutable {
    writeExactly(out, at::kLong, [&](Tensor& target) {
      at::argmax_out(target, self, dim, keepdim);
    });
  };
}

Work ArgMin(Tensor self, int64_t dim, bool keepdim, Tensor out) {
  planReduction(self, dim, keepdim, out);
  return [=]() mutable {
    writeExactly(out, at::kLong, [&](Tensor& target) {
      at::argmin_out(target, self, dim, keepdim);
    });
  };
}

Work All(Tensor self, Ints dim, bool keepdim, Tensor out) {
  dim = planReduction(self, dim, keepdim, out);
  return [=] { out.copy_(at::all(self, at::OptionalIntArrayRef(dim), keepdim)); };
}

Work Any(Tensor self, Ints dim, bool keepdim, Tensor out) {
  dim = planReduction(self, dim, keepdim, out);
  return [=] { out.copy_(at::any(self, at::OptionalIntArrayRef(dim), keepdim)); };
}

Work LinalgVectorNorm(
    Tensor self, Scalar ord, Ints dims, bool keepDims, ScalarType dtype, Tensor out) {
  dims = planReduction(self, dims, keepDims, out);
  return [=]() mutable {
    writeExactly(out, c10::toRealValueType(dtype), [&](Tensor& target) {
      at::linalg_vector_norm_out(target, self, ord, dims, keepDims, dtype);
    });
  };
}

Work Norm(Tensor self, Scalar pScalar, Ints dim, bool keepdim, Tensor out) {
  dim = planReduction(self, dim, keepdim, out);
  return [=] { out.copy_(at::linalg_vector_norm(self, pScalar, dim, keepdim)); };
}

// Here null means all dimensions too.
Work VarCorrection(Tensor self, OptionalInts dim, int64_t correction, bool keepdim, Tensor out) {
  const Ints dims = planReduction(self, dim.value_or(Ints()), keepdim, out);
  return [=] {
    out.copy_(at::var(self, at::OptionalIntArrayRef(dims), Scalar(correction), keepdim));
  };
}

Work VarMean(
    Tensor self, OptionalInts dim, int64_t correction, bool keepdim, Tensor varOut,
    Tensor meanOut) {
  const Ints dims = planReduction(self, dim.value_or(Ints()), keepdim, varOut);
  expectSameSizes("meanOut", meanOut, "varOut", varOut);
  return [=] {
    writePair(
        at::var_mean(self, at::OptionalIntArrayRef(dims), Scalar(correction), keepdim), varOut,
        meanOut);
  };
}

Work Std(Tensor self, OptionalInts dim, int64_t correction, bool keepdim, Tensor out) {
  const Ints dims = planReduction(self, dim.value_or(Ints()), keepdim, out);
  return [=] {
    out.copy_(at::std(self, at::OptionalIntArrayRef(dims), Scalar(correction), keepdim));
  };
}

Work StdMeanCorrection(
    Tensor self, OptionalInts dim, int64_t correction, bool keepdim, Tensor stdOut,
    Tensor meanOut) {
  const Ints dims = planReduction(self, dim.value_or(Ints()), keepdim, stdOut);
  expectSameSizes("meanOut", meanOut, "stdOut", stdOut);
  return [=] {
    writePair(
        at::std_mean(self, at::OptionalIntArrayRef(dims), Scalar(correction), keepdim), stdOut,
        meanOut);
  };
}

Work Median(Tensor self, Tensor valuesOut) {
  expectSizes("valuesOut", valuesOut, {});
  return [=] { valuesOut.copy_(at::median(self)); };
}

Work NanMedian(Tensor self, Tensor out) {
  expectSizes("out", out, {});
  return [=] { out.copy_(at::nanmedian(self)); };
}

Work MedianDim(Tensor self, int64_t dim, bool keepDim, Tensor valuesOut, Tensor indicesOut) {
  planReduction(self, dim, keepDim, valuesOut);
  expectSameSizes("indicesOut", indicesOut, "valuesOut", valuesOut);
  return [=] { writePair(at::median(self, dim, keepDim), valuesOut, indicesOut); };
}

Work NanMedianDim(Tensor self, int64_t dim, bool keepDim, Tensor valuesOut, Tensor indicesOut) {
  planReduction(self, dim, keepDim, valuesOut);
  expectSameSizes("indicesOut", indicesOut, "valuesOut", valuesOut);
  return [=] { writePair(at::nanmedian(self, dim, keepDim), valuesOut, indicesOut); };
}

Work Kthvalue(
    Tensor self, int64_t k, int64_t dim, bool keepdim, Tensor valuesOut, Tensor indicesOut) {
  planReduction(self, dim, keepdim, valuesOut);
  expectSameSizes("indicesOut", indicesOut, "valuesOut", valuesOut);
  const int64_t extent = self.dim() == 0 ? 1 : self.size(dim);
  if (k < 1 || k > extent) {
    refuse("k is " + std::to_string(k) + ", expected 1 to " + std::to_string(extent));
  }
  return [=] { writePair(at::kthvalue(self, k, dim, keepdim), valuesOut, indicesOut); };
}

Work Trace(Tensor self, Tensor out) {
  expectDim("self", self, 2);
  expectSizes("out", out, {});
  return [=] { out.copy_(at::trace(self)); };
}

Work Cumsum(Tensor self, int64_t dim, ScalarType dtype, Tensor out) {
  wrapDim(dim, self.dim());
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) { at::cumsum_out(target, self, dim, dtype); });
  };
}

Work Cumprod(Tensor input, Scalar dim, ScalarType dtype, Tensor out) {
  const int64_t along = wrapDim(dim.to<int64_t>(), input.dim());
  expectSameSizes("out", out, "input", input);
  return [=]() mutable {
    writeExactly(out, dtype, [&](Tensor& target) { at::cumprod_out(target, input, along, dtype); });
  };
}

Work Cummax(Tensor self, int64_t dim, Tensor valuesOut, Tensor indicesOut) {
  wrapDim(dim, self.dim());
  expectSameSizes("valuesOut", valuesOut, "self", self);
  expectSameSizes("indicesOut", indicesOut, "self", self);
  return [=] { writePair(at::cummax(self, dim), valuesOut, indicesOut); };
}

Work Cummin(Tensor self, int64_t dim, Tensor valuesOut, Tensor indicesOut) {
  wrapDim(dim, self.dim());
  expectSameSizes("valuesOut", valuesOut, "self", self);
  expectSameSizes("indicesOut", indicesOut, "self", self);
  return [=] { writePair(at::cummin(self, dim), valuesOut, indicesOut); };
}

}  // namespace npu_emulator::ops
