#include "emulator/ops/Kernel.h"

#include <c10/util/Exception.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <sstream>

namespace npu_emulator::ops {

void refuse(std::string message) { throw Refusal{kParamInvalid, std::move(message)}; }

Resizable::Resizable(Tensor largest, aclTensor* handle)
    : view(std::move(largest)), handle_(handle, [](aclTensor* held) { held->release(); }) {
  handle->retain();
}

void Resizable::setSizes(IntArrayRef sizes) const { handle_->setSizes(sizes.vec()); }

void Resizable::assign(const Tensor& result) const {
  TORCH_CHECK(
      result.numel() <= view.numel() || result.numel() == 0, "the result has ", result.numel(),
      " elements, the output tensor was given room for ", view.numel());
  std::vector<int64_t> strides(result.dim(), 1);
  for (int64_t dim = result.dim() - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] * result.size(dim + 1);
  }
  if (result.numel() != 0) {
    view.as_strided(result.sizes(), strides).copy_(result);
  }
  setSizes(result.sizes());
}

void expectSizes(const char* name, const Tensor& tensor, IntArrayRef expected) {
  if (tensor.sizes() != expected) {
    std::ostringstream message;
    message << name << " has shape " << tensor.sizes() << ", expected " << expected;
    refuse(message.str());
  }
}

void expectSameSizes(
    const char* name, const Tensor& tensor, const char* otherName, const Tensor& other) {
  if (tensor.sizes() != other.sizes()) {
    std::ostringstream message;
    message << name << " has shape " << tensor.sizes() << ", expected that of " << otherName << ", "
            << other.sizes();
    refuse(message.str());
  }
}

void expectDim(const char* name, const Tensor& tensor, int64_t dim) {
  if (tensor.dim() != dim) {
    std::ostringstream message;
    message << name << " must have " << dim << " dimensions, got shape " << tensor.sizes();
    refuse(message.str());
  }
}

void expectType(const char* name, const Tensor& tensor, ScalarType expected) {
  if (tensor.scalar_type() != expected) {
    refuse(
        std::string(name) + " must be of type " + c10::toString(expected) + ", got " +
        c10::toString(tensor.scalar_type()));
  }
}

std::vector<int64_t> broadcastSizes(IntArrayRef a, IntArrayRef b) {
  const auto rank = std::max(a.size(), b.size());
  std::vector<int64_t> sizes(rank);
  for (const auto i : c10::irange(rank)) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      std::ostringstream message;
      message << "shapes " << a << " and " << b << " do not broadcast";
      refuse(message.str());
    }
    sizes[rank - 1 - i] = x == 1 ? y : x;
  }
  return sizes;
}

int64_t wrapDim(int64_t dim, int64_t rank) {
  const int64_t extent = std::max<int64_t>(rank, 1);
  if (dim < -extent || dim >= extent) {
    refuse(
        "dim is " + std::to_string(dim) + ", expected a value in [" + std::to_string(-extent) +
        ", " + std::to_string(extent - 1) + "]");
  }
  return dim < 0 ? dim + extent : dim;
}

std::vector<int64_t> reducedDims(IntArrayRef dims, int64_t rank) {
  std::vector<int64_t> reduced;
  if (dims.empty()) {
    for (const auto dim : c10::irange(rank)) {
      reduced.push_back(dim);
    }
    return reduced;
  }
  for (const int64_t dim : dims) {
    const int64_t wrapped = wrapDim(dim, rank);
    if (std::find(reduced.begin(), reduced.end(), wrapped) != reduced.end()) {
      refuse("dimension " + std::to_string(wrapped) + " appears twice in dim");
    }
    reduced.push_back(wrapped);
  }
  return reduced;
}

std::vector<int64_t> reducedSizes(IntArrayRef sizes, IntArrayRef dims, bool keepDim) {
  std::vector<int64_t> result;
  for (const auto dim : c10::irange(static_cast<int64_t>(sizes.size()))) {
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) {
      result.push_back(sizes[dim]);
    } else if (keepDim) {
      result.push_back(1);
    }
  }
  return result;
}

}  // namespace npu_emulator::ops
