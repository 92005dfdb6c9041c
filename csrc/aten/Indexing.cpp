// Indexing by lists of tensors, and operators whose result's size depends on data.
//
// Note [Sizes from data]
// aclnn gets such a result at its largest size and writes the elements densely at its start; the
// real shape is known when the work is done, so these operators wait for the device. The tensor keeps
// the larger memory.
#include <ATen/ExpandUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "aten/Arguments.h"
#include "aten/Structured.h"

namespace torch_npu::aten {
namespace {

using IndexList = c10::List<std::optional<at::Tensor>>;

at::Tensor findNonzero(const at::Tensor& self) {
  const OnDevice scope(self);
  const at::TensorOptions options = self.options().dtype(at::ScalarType::Long);
  if (self.numel() == 0) {
    return allocate({0, self.dim()}, {}, options);
  }
  at::Tensor result = allocate({self.numel(), self.dim()}, {}, options);
  const ViewShape shape = launchForShape<1>(cann::aclnnNonzero, self, result);
  result.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return result;
}

at::Tensor maskedSelect(const at::Tensor& self, const at::Tensor& mask) {
  const OnDevice scope(deviceOf(self, mask));
  TORCH_CHECK(
      mask.scalar_type() == at::ScalarType::Bool,
      "masked_select: expected BoolTensor for mask, got ", mask.scalar_type());
  const c10::MaybeOwned<at::Tensor> source = operand(self, std::nullopt);
  const c10::MaybeOwned<at::Tensor> selection = operand(mask, std::nullopt);
  const auto sizes = at::infer_size_dimvector(self.sizes(), mask.sizes());
  const int64_t largest = c10::multiply_integers(sizes);
  at::Tensor result = allocate({largest}, {}, source->options());
  if (largest != 0) {
    const ViewShape shape =
        launchForShape<2>(cann::aclnnMaskedSelect, *source, *selection, result);
    result.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  }
  return result;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique(
    const at::Tensor& self, bool sorted, bool returnInverse, bool returnCounts) {
  const OnDevice scope(self);
  const at::TensorOptions positions = self.options().dtype(at::ScalarType::Long);
  at::Tensor values = allocate({self.numel()}, {}, self.options());
  at::Tensor inverse = returnInverse ? allocate(self.sizes(), {}, positions)
                                     : allocate({0}, {}, positions);
  at::Tensor counts = allocate({returnCounts ? self.numel() : 0}, {}, positions);
  if (self.numel() != 0) {
    const ViewShape shape = launchForShape<4>(
        cann::aclnnUnique2, self, sorted, returnInverse, returnCounts, values, inverse, counts);
    values.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
    if (returnCounts) {
      counts.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
    }
  }
  return {std::move(values), std::move(inverse), std::move(counts)};
}

at::Tensor& copyToOut(const char* name, const at::Tensor& result, at::Tensor& out) {
  TORCH_CHECK(
      out.scalar_type() == result.scalar_type(), name, ": expected out of dtype ",
      result.scalar_type(), ", got ", out.scalar_type());
  TORCH_CHECK(
      out.device() == result.device(), name, ": expected out on ", result.device(), ", got ",
      out.device());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& nonzeroOut(const at::Tensor& self, at::Tensor& out) {
  return copyToOut("nonzero", findNonzero(self), out);
}

at::Tensor& maskedSelectOut(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  return copyToOut("masked_select", maskedSelect(self, mask), out);
}

// Masks become the positions of their true elements; undefined tensors mean whole dimensions.
std::vector<at::Tensor> positions(const at::Tensor& self, const IndexList& indices) {
  TORCH_CHECK_INDEX(
      static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
      self.dim(), " (got ", indices.size(), ")");
  at::native::checkIndexTensorTypes(indices, /*allow_int=*/true);
  std::vector<at::Tensor> result =
      at::native::expandTensors(self, indices, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(
      static_cast<int64_t>(result.size()) <= self.dim(), "too many indices for tensor of dimension ",
      self.dim(), " (got ", result.size(), ")");
  for (at::Tensor& index : result) {
    if (index.defined() && index.scalar_type() != at::ScalarType::Long) {
      index = *operand(index, at::ScalarType::Long);
    }
  }
  return result;
}

// The common shape of the defined indices.
Dims indexShape(const std::vector<at::Tensor>& indices) {
  Dims shape;
  for (const at::Tensor& index : indices) {
    if (!index.defined()) {
      continue;
    }
    TORCH_CHECK_INDEX(
        at::are_expandable(shape, index.sizes()),
        "shape mismatch: indexing tensors could not be broadcast together with shapes ",
        at::IntArrayRef(shape), ", ", index.sizes());
    shape = Dims(at::infer_size_dimvector(shape, index.sizes()));
  }
  return shape;
}

// Of self[indices]: the common shape of the indices replaces the indexed dimensions, at the place of
// the first one if they are neighbours, else in front.
Dims indexedSizes(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  const Dims shape = indexShape(indices);
  const bool neighbours = at::native::hasContiguousSubspace(indices);
  Dims result;
  bool placed = false;
  if (!neighbours) {
    result.append(shape.begin(), shape.end());
    placed = true;
  }
  bool selectsFromNothing = false;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim < static_cast<int64_t>(indices.size()) && indices[dim].defined()) {
      if (!placed) {
        result.append(shape.begin(), shape.end());
        placed = true;
      }
      selectsFromNothing = selectsFromNothing || self.size(dim) == 0;
    } else {
      result.push_back(self.size(dim));
    }
  }
  TORCH_CHECK_INDEX(
      !selectsFromNothing || c10::multiply_integers(result) == 0,
      "index is out of bounds for dimension with size 0");
  return result;
}

// aclnn takes an empty tensor where a dimension is not indexed.
void fillUndefined(std::vector<at::Tensor>& indices, const at::Tensor& self) {
  at::Tensor nothing;
  for (at::Tensor& index : indices) {
    if (!index.defined()) {
      if (!nothing.defined()) {
        nothing = allocate({0}, {}, self.options().dtype(at::ScalarType::Long));
      }
      index = nothing;
    }
  }
}

void launchIndex(const at::Tensor& self, std::vector<at::Tensor> indices, const at::Tensor& out) {
  if (out.numel() == 0) {
    return;
  }
  fillUndefined(indices, self);
  launch(cann::aclnnIndex, self, indices, out);
}

at::Tensor indexTensor(const at::Tensor& self, const IndexList& indices) {
  const OnDevice scope(self);
  std::vector<at::Tensor> where = positions(self, indices);
  at::Tensor result = allocate(indexedSizes(self, where), {}, self.options());
  launchIndex(self, std::move(where), result);
  return result;
}

at::Tensor& indexOut(const at::Tensor& self, const IndexList& indices, at::Tensor& out) {
  const OnDevice scope(self);
  TORCH_CHECK(
      out.scalar_type() == self.scalar_type(), "index: expected out of dtype ", self.scalar_type(),
      ", got ", out.scalar_type());
  std::vector<at::Tensor> where = positions(self, indices);
  at::native::resize_output(out, indexedSizes(self, where));
  launchIndex(self, std::move(where), out);
  return out;
}

// self[mask] = number needs no positions, and so no waiting.
bool putByMask(
    at::Tensor& self, const IndexList& indices, const at::Tensor& values, bool accumulate) {
  if (accumulate || values.numel() != 1) {
    return false;
  }
  at::Tensor mask;
  int64_t before = 0;
  for (const std::optional<at::Tensor>& index : indices) {
    if (!present(index)) {
      before += mask.defined() ? 0 : 1;
      continue;
    }
    if (mask.defined() || index->scalar_type() != at::ScalarType::Bool) {
      return false;
    }
    mask = *index;
  }
  if (!mask.defined() || mask.device() != self.device() || before + mask.dim() > self.dim() ||
      self.sizes().slice(before, mask.dim()) != mask.sizes()) {
    return false;
  }
  for (int64_t dim = before + mask.dim(); dim < self.dim(); ++dim) {
    mask = mask.unsqueeze(-1);
  }
  const at::Tensor number = values.reshape({});
  if (isNumber(number)) {
    self.masked_fill_(mask, numberOf(number));
  } else {
    self.masked_fill_(mask, number);
  }
  return true;
}

at::Tensor& indexPut(
    at::Tensor& self, const IndexList& indices, const at::Tensor& values, bool accumulate,
    bool unsafe) {
  const OnDevice scope(self);
  TORCH_CHECK(
      self.scalar_type() == values.scalar_type(),
      "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
      " for the destination and ", values.scalar_type(), " for the source.");
  if (putByMask(self, indices, values, accumulate)) {
    return self;
  }
  std::vector<at::Tensor> where = positions(self, indices);
  const Dims sizes = indexedSizes(self, where);
  TORCH_CHECK(
      at::is_expandable_to(values.sizes(), sizes), "shape mismatch: value tensor of shape ",
      values.sizes(), " cannot be broadcast to indexing result of shape ", at::IntArrayRef(sizes));
  if (c10::multiply_integers(sizes) == 0) {
    return self;
  }
  fillUndefined(where, self);
  launch(
      cann::aclnnIndexPutImpl, self, where, *operand(values, std::nullopt), accumulate, unsafe);
  return self;
}

bool allEqual(const at::Tensor& self, const at::Tensor& other) {
  const OnDevice scope(self);
  TORCH_CHECK(
      self.device() == other.device(),
      "Expected all tensors to be on the same device, but found at least two devices, ",
      self.device(), " and ", other.device());
  if (self.sizes() != other.sizes()) {
    return false;
  }
  if (self.numel() == 0) {
    return true;
  }
  const at::Tensor same = allocate({1}, {}, self.options().dtype(at::ScalarType::Bool));
  const at::ScalarType type = c10::promoteTypes(self.scalar_type(), other.scalar_type());
  launch(cann::aclnnEqual, *operand(self, type), *operand(other, type), same);
  return same.item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("nonzero", &findNonzero);
  library.impl("nonzero.out", &nonzeroOut);
  library.impl("masked_select", &maskedSelect);
  library.impl("masked_select.out", &maskedSelectOut);
  library.impl("_unique2", &unique);
  library.impl("index.Tensor", &indexTensor);
  library.impl("index.Tensor_out", &indexOut);
  library.impl("_index_put_impl_", &indexPut);
  library.impl("equal", &allEqual);
}

}  // namespace
}  // namespace torch_npu::aten
