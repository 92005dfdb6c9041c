// Joining, repeating, reordering and padding.
#include "emulator/ops/Kernel.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>

#include <algorithm>
#include <numeric>

namespace npu_emulator::ops {

namespace {

// Tensors of shape [0] take part in no concatenation, whatever the rank of the others.
bool isPlaceholder(const Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; }

void expectDefined(const Tensors& tensors) {
  if (tensors.empty()) {
    refuse("the list of tensors is empty");
  }
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      throw Refusal{kParamNull, "the list of tensors has a null member"};
    }
  }
}

}  // namespace

Work Cat(Tensors tensors, int64_t dim, Tensor out) {
  expectDefined(tensors);
  std::vector<int64_t> sizes;
  int64_t along = -1;
  for (const Tensor& tensor : tensors) {
    if (isPlaceholder(tensor)) {
      continue;
    }
    if (along < 0) {
      along = wrapDim(dim, tensor.dim());
      sizes = tensor.sizes().vec();
      continue;
    }
    if (tensor.dim() == static_cast<int64_t>(sizes.size())) {
      const int64_t joined = sizes[along];
      sizes[along] = tensor.size(along);
      expectSizes("a tensor to be joined", tensor, sizes);
      sizes[along] += joined;
    } else {
      expectDim("a tensor to be joined", tensor, static_cast<int64_t>(sizes.size()));
    }
  }
  if (along < 0) {
    sizes = {0};
    along = 0;
  }
  expectSizes("out", out, sizes);
  return [=]() mutable {
    writeAs(out, at::native::result_type(tensors), [&](Tensor& target) {
      at::cat_out(target, tensors, along);
    });
  };
}

Work Stack(Tensors tensors, int64_t dim, Tensor out) {
  expectDefined(tensors);
  for (const Tensor& tensor : tensors) {
    expectSameSizes("a tensor to be stacked", tensor, "the first", tensors[0]);
  }
  dim = wrapDim(dim, tensors[0].dim() + 1);
  std::vector<int64_t> sizes = tensors[0].sizes().vec();
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(tensors.size()));
  expectSizes("out", out, sizes);
  return [=]() mutable {
    writeAs(out, at::native::result_type(tensors), [&](Tensor& target) {
      at::stack_out(target, tensors, dim);
    });
  };
}

Work SplitWithSize(Tensor self, Ints splitSize, int64_t dim, Tensors out) {
  dim = wrapDim(dim, self.dim());
  if (self.dim() == 0 || out.size() != splitSize.size() ||
      std::accumulate(splitSize.begin(), splitSize.end(), int64_t{0}) != self.size(dim)) {
    refuse("splitSize must add up to the size of dim and have one entry for each tensor of out");
  }
  int64_t start = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[dim] = splitSize[i];
    expectSizes("a tensor of out", out[i], sizes);
  }
  return [=]() mutable {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].copy_(self.narrow(dim, start, splitSize[i]));
      start += splitSize[i];
    }
  };
}

Work Repeat(Tensor self, Ints repeats, Tensor out) {
  if (static_cast<int64_t>(repeats.size()) < self.dim() ||
      std::any_of(repeats.begin(), repeats.end(), [](int64_t times) { return times < 0; })) {
    refuse("repeats must have an entry of at least 0 for each dimension of self");
  }
  std::vector<int64_t> sizes = repeats;
  const auto leading = static_cast<int64_t>(repeats.size()) - self.dim();
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    sizes[leading + dim] *= self.size(dim);
  }
  expectSizes("out", out, sizes);
  return [=] { out.copy_(self.repeat(repeats)); };
}

Work RepeatInterleave(Tensor self, Tensor repeats, int64_t outputSize, Tensor out) {
  expectSizes("out", out, {outputSize});
  return [=] {
    out.copy_(at::repeat_interleave(self, repeats, std::nullopt, outputSize));
  };
}

Work RepeatInterleaveWithDim(
    Tensor self, Tensor repeats, int64_t dim, int64_t outputSize, Tensor out) {
  wrapDim(dim, self.dim());
  return [=] {
    const Tensor result = at::repeat_interleave(self, repeats, dim, outputSize);
    TORCH_CHECK(
        result.sizes() == out.sizes(), "out has shape ", out.sizes(), ", expected ",
        result.sizes());
    out.copy_(result);
  };
}

Work RepeatInterleaveInt(Tensor self, int64_t repeats, int64_t outputSize, Tensor out) {
  if (outputSize != self.numel() * repeats) {
    refuse("outputSize is " + std::to_string(outputSize) + ", expected " +
           std::to_string(self.numel() * repeats));
  }
  expectSizes("out", out, {outputSize});
  return [=] { out.copy_(at::repeat_interleave(self, repeats)); };
}

Work RepeatInterleaveIntWithDim(
    Tensor self, int64_t repeats, int64_t dim, int64_t /*outputSize*/, Tensor out) {
  dim = wrapDim(dim, self.dim());
  std::vector<int64_t> sizes = self.sizes().vec();
  if (sizes.empty()) {
    sizes.push_back(1);
  }
  sizes[dim] *= repeats;
  expectSizes("out", out, sizes);
  return [=] { out.copy_(at::repeat_interleave(self, repeats, dim)); };
}

Work RepeatInterleaveTensor(Tensor repeats, int64_t outputSize, Tensor out) {
  expectSizes("out", out, {outputSize});
  // A plain integer would choose the overload that repeats a tensor so many times.
  return [=] { out.copy_(at::repeat_interleave(repeats, std::optional<int64_t>(outputSize))); };
}

Work Flip(Tensor self, Ints dims, Tensor out) {
  if (!dims.empty()) {
    dims = reducedDims(dims, self.dim());
  }
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::flip(self, dims)); };
}

Work Roll(Tensor x, Ints shifts, Ints dims, Tensor out) {
  if (dims.empty() ? shifts.size() != 1 : shifts.size() != dims.size()) {
    refuse("shifts must have one entry for each of dims, or a single one where dims is empty");
  }
  for (const int64_t dim : dims) {
    wrapDim(dim, x.dim());
  }
  expectSameSizes("out", out, "x", x);
  return [=] { out.copy_(at::roll(x, shifts, dims)); };
}

namespace {

void expectMatrix(const Tensor& self) {
  if (self.dim() < 2) {
    refuse("self must have at least 2 dimensions, got " + std::to_string(self.dim()));
  }
}

}  // namespace

Work Tril(Tensor self, int64_t diagonal, Tensor out) {
  expectMatrix(self);
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::tril_out(target, self, diagonal);
    });
  };
}
Work InplaceTril(Tensor selfRef, int64_t diagonal) {
  return Tril(selfRef, diagonal, selfRef);
}

Work Triu(Tensor self, int64_t diagonal, Tensor out) {
  expectMatrix(self);
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::triu_out(target, self, diagonal);
    });
  };
}
Work InplaceTriu(Tensor selfRef, int64_t diagonal) {
  return Triu(selfRef, diagonal, selfRef);
}

// pad holds (before, after) of the last dimension, then of the one before it, and so on.
Work ConstantPadNd(Tensor self, Ints pad, Scalar value, Tensor out) {
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size()) > 2 * self.dim()) {
    refuse(
        "pad has " + std::to_string(pad.size()) + " entries, expected an even number of at most " +
        std::to_string(2 * self.dim()));
  }
  std::vector<int64_t> sizes = self.sizes().vec();
  for (std::size_t i = 0; i < pad.size(); i += 2) {
    sizes[sizes.size() - 1 - i / 2] += pad[i] + pad[i + 1];
  }
  expectSizes("out", out, sizes);
  return [=] { out.copy_(at::constant_pad_nd(self, pad, value)); };
}

Work OneHot(
    Tensor self, int numClasses, Tensor onValue, Tensor offValue, int64_t axis, Tensor out) {
  axis = wrapDim(axis, self.dim() + 1);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.insert(sizes.begin() + axis, numClasses);
  expectSizes("out", out, sizes);
  if (onValue.numel() != 1 || offValue.numel() != 1) {
    refuse("onValue and offValue must have one element each");
  }
  return [=] {
    out.copy_(offValue.reshape({}).expand(out.sizes()));
    out.scatter_(
        axis, self.to(at::kLong).unsqueeze(axis),
        onValue.reshape({}).to(out.scalar_type()).expand(self.unsqueeze(axis).sizes()));
  };
}

}  // namespace npu_emulator::ops
