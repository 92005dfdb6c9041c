// Sorting, searching, counting, and operators whose result has a shape that depends on data.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/_unique.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/unique_dim.h>

namespace npu_emulator::ops {

namespace {

void expectRoom(const char* name, const Tensor& tensor, int64_t elements) {
  if (tensor.numel() < elements) {
    refuse(
        std::string(name) + " has room for " + std::to_string(tensor.numel()) +
        " elements, expected the largest possible number, " + std::to_string(elements));
  }
}

}  // namespace

Work Sort(
    Tensor self, bool stable, int64_t dim, bool descending, Tensor valuesOut, Tensor indicesOut) {
  wrapDim(dim, self.dim());
  expectSameSizes("valuesOut", valuesOut, "self", self);
  expectSameSizes("indicesOut", indicesOut, "self", self);
  return [=]() mutable {
    if (valuesOut.scalar_type() == self.scalar_type() && indicesOut.scalar_type() == at::kLong) {
      at::sort_out(valuesOut, indicesOut, self, std::optional<bool>(stable), dim, descending);
      return;
    }
    const auto [values, indices] = at::sort(self, std::optional<bool>(stable), dim, descending);
    valuesOut.copy_(values);
    indicesOut.copy_(indices);
  };
}

Work Topk(
    Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, Tensor valuesOut,
    Tensor indicesOut) {
  const int64_t along = wrapDim(dim, self.dim());
  std::vector<int64_t> sizes = self.sizes().vec();
  const int64_t extent = sizes.empty() ? 1 : sizes[along];
  if (k < 0 || k > extent) {
    refuse("k is " + std::to_string(k) + ", expected 0 to " + std::to_string(extent));
  }
  if (!sizes.empty()) {
    sizes[along] = k;
  }
  expectSizes("valuesOut", valuesOut, sizes);
  expectSizes("indicesOut", indicesOut, sizes);
  return [=]() mutable {
    const auto [values, indices] = at::topk(self, k, dim, largest, sorted);
    valuesOut.copy_(values);
    indicesOut.copy_(indices);
  };
}

Work MaskedSelect(Tensor self, Tensor mask, Resizable out) {
  const auto sizes = broadcastSizes(self.sizes(), mask.sizes());
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    elements *= size;
  }
  expectRoom("out", out.view, elements);
  return [=] { out.assign(at::masked_select(self, mask.to(at::kBool))); };
}

// One row of coordinates for each element that is not zero.
Work Nonzero(Tensor self, Resizable out) {
  expectRoom("out", out.view, self.numel() * self.dim());
  return [=] { out.assign(at::nonzero(self)); };
}

// The same with one row for each dimension.
Work NonzeroV2(Tensor self, Resizable out) {
  expectRoom("out", out.view, self.numel() * self.dim());
  return [=] { out.assign(at::nonzero(self).transpose(0, 1)); };
}

Work Unique(
    Tensor self, bool sorted, bool returnInverse, Resizable valueOut, Tensor inverseOut) {
  expectRoom("valueOut", valueOut.view, self.numel());
  return [=] {
    const auto [values, inverse] = at::_unique(self, sorted, returnInverse);
    valueOut.assign(values);
    if (returnInverse) {
      inverseOut.copy_(inverse.reshape(inverseOut.sizes()));
    }
  };
}

Work Unique2(
    Tensor self, bool sorted, bool returnInverse, bool returnCounts, Resizable valueOut,
    Tensor inverseOut, Resizable countsOut) {
  expectRoom("valueOut", valueOut.view, self.numel());
  if (returnCounts) {
    expectRoom("countsOut", countsOut.view, self.numel());
  }
  return [=] {
    const auto [values, inverse, counts] =
        at::_unique2(self, sorted, returnInverse, returnCounts);
    valueOut.assign(values);
    if (returnInverse) {
      inverseOut.copy_(inverse.reshape(inverseOut.sizes()));
    }
    if (returnCounts) {
      countsOut.assign(counts);
    }
  };
}

Work UniqueConsecutive(
    Tensor self, bool returnInverse, bool returnCounts, int64_t dim, Resizable valueOut,
    Tensor inverseOut, Resizable countsOut) {
  // The largest int64 stands for "no dimension".
  const bool flat = dim > 1000 || dim < -1000;
  expectRoom("valueOut", valueOut.view, self.numel());
  return [=] {
    const auto [values, inverse, counts] = at::unique_consecutive(
        self, returnInverse, returnCounts, flat ? std::nullopt : std::optional<int64_t>(dim));
    valueOut.assign(values);
    if (returnInverse) {
      inverseOut.copy_(inverse.reshape(inverseOut.sizes()));
    }
    if (returnCounts) {
      countsOut.assign(counts);
    }
  };
}

Work UniqueDim(
    Tensor self, bool sorted, bool returnInverse, int64_t dim, Resizable valueOut,
    Tensor inverseOut, Resizable countsOut) {
  wrapDim(dim, self.dim());
  expectRoom("valueOut", valueOut.view, self.numel());
  return [=] {
    const auto [values, inverse, counts] =
        at::unique_dim(self, dim, sorted, returnInverse, /*return_counts=*/true);
    valueOut.assign(values);
    if (returnInverse) {
      inverseOut.copy_(inverse.reshape(inverseOut.sizes()));
    }
    countsOut.assign(counts);
  };
}

Work SearchSorted(
    Tensor sortedSequence, Tensor self, bool outInt32, bool right, OptionalTensor sorter,
    Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] {
    out.copy_(at::searchsorted(sortedSequence, self, outInt32, right, std::nullopt, sorter));
  };
}

Work SearchSorteds(
    Tensor sortedSequence, Scalar self, bool outInt32, bool right, OptionalTensor sorter,
    Tensor out) {
  expectSizes("out", out, {});
  return [=] {
    out.copy_(at::searchsorted(sortedSequence, self, outInt32, right, std::nullopt, sorter));
  };
}

Work Bucketize(Tensor self, Tensor boundaries, bool outInt32, bool right, Tensor out) {
  expectDim("boundaries", boundaries, 1);
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::bucketize(self, boundaries, outInt32, right)); };
}

// The caller knows the largest value: out has its real size.
Work Bincount(Tensor self, OptionalTensor weights, int64_t minlength, Tensor out) {
  expectDim("self", self, 1);
  expectDim("out", out, 1);
  return [=] {
    const Tensor counts = at::bincount(self, weights, std::max(minlength, out.size(0)));
    TORCH_CHECK(
        counts.sizes() == out.sizes(), "out has shape ", out.sizes(), ", expected ",
        counts.sizes());
    out.copy_(counts);
  };
}

Work Histc(Tensor self, int64_t bins, Scalar min, Scalar max, Tensor out) {
  expectSizes("out", out, {bins});
  return [=] {
    const Tensor values = self.is_floating_point() ? self : self.to(at::kFloat);
    out.copy_(at::histc(values, bins, min, max));
  };
}

}  // namespace npu_emulator::ops
