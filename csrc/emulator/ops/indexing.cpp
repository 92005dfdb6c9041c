// Reading and writing by index.
#include "emulator/ops/Kernel.h"

#include <ATen/core/List.h>
#include <ATen/ops/_index_put_impl.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/embedding_renorm.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_fill.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_scatter.h>
#include <ATen/ops/put.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/take.h>
#include <ATen/ops/tensor.h>

#include <sstream>

namespace npu_emulator::ops {

namespace {

// Lets `into` change a copy of self in out, or out itself where it is self.
void startFrom(const Tensor& self, const Tensor& out) {
  const bool same = self.data_ptr() == out.data_ptr() && self.strides() == out.strides() &&
      self.scalar_type() == out.scalar_type();
  if (!same) {
    out.copy_(self);
  }
}

void expectIndexWithin(const Tensor& self, int64_t dim, const Tensor& index, bool alongToo) {
  const int64_t rank = std::max<int64_t>(self.dim(), 1);
  const int64_t along = wrapDim(dim, self.dim());
  if (std::max<int64_t>(index.dim(), 1) != rank) {
    refuse(
        "index has " + std::to_string(index.dim()) + " dimensions, expected " +
        std::to_string(self.dim()));
  }
  for (int64_t d = 0; d < index.dim() && d < self.dim(); ++d) {
    if ((alongToo || d != along) && index.size(d) > self.size(d)) {
      std::ostringstream message;
      message << "index of shape " << index.sizes() << " does not fit into " << self.sizes()
              << " apart from dimension " << along;
      refuse(message.str());
    }
  }
}

// Indices as ATen takes them. Callers leave a dimension out by null or by an index of shape [0]:
// a real index without elements gives a result without elements, which is not computed at all.
c10::List<std::optional<Tensor>> indexList(const Tensors& indices) {
  c10::List<std::optional<Tensor>> list;
  for (const Tensor& index : indices) {
    const bool absent = !index.defined() || (index.dim() == 1 && index.numel() == 0);
    list.push_back(absent ? std::nullopt : std::optional<Tensor>(index));
  }
  return list;
}

// How Scatter combines: 0 replaces, 1 adds, 2 multiplies.
std::optional<c10::string_view> combination(int64_t reduce) {
  switch (reduce) {
    case 0:
      return std::nullopt;
    case 1:
      return "add";
    case 2:
      return "multiply";
    default:
      refuse(
          "reduce is " + std::to_string(reduce) +
          ", expected 0 (none), 1 (add) or 2 (multiply)");
  }
}

void expectLine(const char* name, const Tensor& index) {
  if (index.dim() > 1) {
    refuse(std::string(name) + " must have one dimension, got " + std::to_string(index.dim()));
  }
}

std::vector<int64_t> selectedSizes(const Tensor& self, int64_t dim, int64_t count) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) {
    sizes[dim] = count;
  }
  return sizes;
}

}  // namespace

Work Embedding(Tensor weight, Tensor indices, Tensor out) {
  expectDim("weight", weight, 2);
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  expectSizes("out", out, sizes);
  return [=] {
    if (out.is_contiguous() && out.scalar_type() == weight.scalar_type()) {
      Tensor rows = out.view({indices.numel(), weight.size(1)});
      at::index_select_out(rows, weight, 0, indices.reshape({-1}));
    } else {
      out.copy_(at::embedding(weight, indices));
    }
  };
}

Work EmbeddingDenseBackward(
    Tensor grad, Tensor indices, uint64_t numWeights, uint64_t paddingIdx, bool scaleGradByFreq,
    Tensor out) {
  if (grad.dim() == 0) {
    refuse("grad must have at least one dimension");
  }
  expectSizes("out", out, {static_cast<int64_t>(numWeights), grad.size(-1)});
  return [=] {
    out.copy_(at::embedding_dense_backward(
        grad.to(out.scalar_type()), indices.to(at::kLong), static_cast<int64_t>(numWeights),
        static_cast<int64_t>(paddingIdx), scaleGradByFreq));
  };
}

Work EmbeddingRenorm(Tensor selfRef, Tensor indices, double maxNorm, double normType) {
  expectDim("selfRef", selfRef, 2);
  return [=]() mutable {
    at::embedding_renorm_(selfRef, indices.contiguous(), maxNorm, normType);
  };
}

Work IndexSelect(Tensor self, int64_t dim, Tensor index, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectLine("index", index);
  expectSizes("out", out, selectedSizes(self, dim, index.numel()));
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::index_select_out(target, self, dim, index);
    });
  };
}

Work Gather(Tensor self, int64_t dim, Tensor index, Tensor out) {
  expectIndexWithin(self, dim, index, /*alongToo=*/false);
  expectSameSizes("out", out, "index", index);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::gather_out(target, self, dim, index.to(at::kLong));
    });
  };
}

Work Scatter(Tensor self, int64_t dim, Tensor index, Tensor src, int64_t reduce, Tensor out) {
  expectIndexWithin(self, dim, index, /*alongToo=*/false);
  expectIndexWithin(src, dim, index, /*alongToo=*/true);
  expectSameSizes("out", out, "self", self);
  const auto combine = combination(reduce);
  return [=] {
    startFrom(self, out);
    const Tensor place = index.to(at::kLong);
    const Tensor values = src.to(out.scalar_type());
    combine ? out.scatter_(dim, place, values, *combine) : out.scatter_(dim, place, values);
  };
}
Work InplaceScatter(Tensor selfRef, int64_t dim, Tensor index, Tensor src, int64_t reduce) {
  return Scatter(selfRef, dim, index, src, reduce, selfRef);
}

Work ScatterValue(
    Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduce, Tensor out) {
  expectIndexWithin(self, dim, index, /*alongToo=*/false);
  expectSameSizes("out", out, "self", self);
  const auto combine = combination(reduce);
  return [=] {
    startFrom(self, out);
    const Tensor place = index.to(at::kLong);
    combine ? out.scatter_(dim, place, value, *combine) : out.scatter_(dim, place, value);
  };
}
Work InplaceScatterValue(Tensor selfRef, int64_t dim, Tensor index, Scalar value, int64_t reduce) {
  return ScatterValue(selfRef, dim, index, value, reduce, selfRef);
}

Work ScatterAdd(Tensor self, int64_t dim, Tensor index, Tensor src, Tensor out) {
  return Scatter(self, dim, index, src, /*reduce=*/1, out);
}

Work Index(Tensor self, Tensors indices, Tensor out) {
  if (indices.empty() || static_cast<int64_t>(indices.size()) > self.dim()) {
    refuse(
        std::to_string(indices.size()) + " indices for a tensor of " + std::to_string(self.dim()) +
        " dimensions");
  }
  if (out.numel() == 0) {
    return {};
  }
  return [=]() mutable {
    const Tensor result = at::index(self, indexList(indices));
    TORCH_CHECK(
        result.sizes() == out.sizes(), "out has shape ", out.sizes(), ", expected ",
        result.sizes());
    out.copy_(result);
  };
}

Work IndexPutImpl(Tensor selfRef, Tensors indices, Tensor values, bool accumulate, bool unsafe) {
  if (indices.empty() || static_cast<int64_t>(indices.size()) > selfRef.dim()) {
    refuse(
        std::to_string(indices.size()) + " indices for a tensor of " +
        std::to_string(selfRef.dim()) + " dimensions");
  }
  if (selfRef.numel() == 0 || values.numel() == 0) {
    return {};
  }
  return [=]() mutable {
    at::_index_put_impl_(
        selfRef, indexList(indices), values.to(selfRef.scalar_type()), accumulate, unsafe);
  };
}

Work IndexAdd(
    Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectLine("index", index);
  expectSizes("source", source, selectedSizes(self, dim, index.numel()));
  expectSameSizes("out", out, "self", self);
  return [=] {
    startFrom(self, out);
    out.index_add_(dim, index, source.to(out.scalar_type()), alpha);
  };
}
// mode asks the hardware for a faster or for a deterministic way; both give the same sums here.
Work IndexAddV2(
    Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, int64_t /*mode*/,
    Tensor out) {
  return IndexAdd(self, dim, index, source, alpha, out);
}

Work IndexCopy(Tensor selfRef, int64_t dim, Tensor index, Tensor source, Tensor outRef) {
  dim = wrapDim(dim, selfRef.dim());
  expectLine("index", index);
  expectSizes("source", source, selectedSizes(selfRef, dim, index.numel()));
  expectSameSizes("outRef", outRef, "selfRef", selfRef);
  return [=] {
    startFrom(selfRef, outRef);
    outRef.index_copy_(dim, index.to(at::kLong), source.to(outRef.scalar_type()));
  };
}
Work InplaceIndexCopy(Tensor selfRef, int64_t dim, Tensor index, Tensor source) {
  return IndexCopy(selfRef, dim, index, source, selfRef);
}

Work IndexFill(Tensor self, int64_t dim, Tensor index, Scalar value, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectLine("index", index);
  expectSameSizes("out", out, "self", self);
  return [=] {
    startFrom(self, out);
    out.index_fill_(dim, index.to(at::kLong), value);
  };
}
Work InplaceIndexFill(Tensor selfRef, int64_t dim, Tensor index, Scalar value) {
  return IndexFill(selfRef, dim, index, value, selfRef);
}
Work IndexFillTensor(Tensor self, int64_t dim, Ints index, Scalar value, Tensor out) {
  dim = wrapDim(dim, self.dim());
  expectSameSizes("out", out, "self", self);
  return [=] {
    startFrom(self, out);
    out.index_fill_(dim, at::tensor(index, at::kLong), value);
  };
}
Work InplaceIndexFillTensor(Tensor selfRef, int64_t dim, Ints index, Scalar value) {
  return IndexFillTensor(selfRef, dim, index, value, selfRef);
}

Work Take(Tensor self, Tensor index, Tensor out) {
  expectSameSizes("out", out, "index", index);
  return [=] { out.copy_(at::take(self, index.to(at::kLong))); };
}

Work InplacePut(Tensor selfRef, Tensor index, Tensor source, bool accumulate) {
  if (index.numel() != source.numel()) {
    refuse(
        "index has " + std::to_string(index.numel()) + " elements, source has " +
        std::to_string(source.numel()));
  }
  return [=] {
    selfRef.put_(index.to(at::kLong), source.to(selfRef.scalar_type()), accumulate);
  };
}

Work InplaceMaskedScatter(Tensor selfRef, Tensor mask, Tensor source) {
  expectSizes("mask, once broadcast,", selfRef, broadcastSizes(mask.sizes(), selfRef.sizes()));
  return [=] {
    selfRef.masked_scatter_(mask.to(at::kBool), source.to(selfRef.scalar_type()));
  };
}

}  // namespace npu_emulator::ops
