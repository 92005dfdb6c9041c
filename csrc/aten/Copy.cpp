#include "aten/Copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/resize.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zero.h>

#include <cstring>

#include "aten/Factory.h"
#include "aten/Fallback.h"
#include "aten/Launch.h"
#include "cann/Acl.h"
#include "runtime/Event.h"
#include "runtime/HostAllocator.h"

// Note [Copies]
// Every copy is ordered by the current stream of the device(s) it touches, as any kernel. What
// differs is when the host goes on:
//   host -> device  blocking, or from more than kStagingBytes of pageable memory: the stream is
//                   drained, then the bytes are moved. Non-blocking from pageable memory: through a
//                   page-locked buffer of ours, since the caller may overwrite his at once.
//                   Non-blocking from page-locked memory: enqueued; the host allocator learns that
//                   the block is in use.
//   device -> host  into page-locked memory and non-blocking: enqueued, as above. Else it is
//                   complete when the call returns: nobody could know when pageable memory is
//                   ready.
//   device -> device never waits.
// Only dense blocks of equal layout and dtype cross the bus. Conversion, transposition and
// broadcasting happen on the device, next to a temporary; those that no aclnn function does, on the
// host (counted). Lazy conjugation and negation are taken off both sides first and made up for in
// the destination.
namespace torch_npu::aten {
namespace {

// Above it, copying twice costs more than waiting for the stream (and page-locked memory is dear).
constexpr size_t kStagingBytes = size_t{16} << 20;

bool isNpu(const at::Tensor& tensor) {
  return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

bool isDense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense();
}

// Equal shape, and element i of one is where element i of the other is.
bool sameLayout(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) {
    return false;
  }
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != 1 && a.stride(i) != b.stride(i)) {
      return false;
    }
  }
  return true;
}

// Both are one block of memory, and the bytes of one are the bytes of the other.
bool sameBytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && sameLayout(a, b) && isDense(a) && isDense(b);
}

at::Tensor expanded(const at::Tensor& tensor, at::IntArrayRef sizes) {
  if (tensor.sizes() == sizes) {
    return tensor;
  }
  const auto geometry =
      at::inferExpandGeometry_dimvector(tensor.sizes(), tensor.strides(), sizes);
  return at::native::as_strided_tensorimpl(
      tensor, geometry.sizes, geometry.strides, tensor.storage_offset());
}

// The same memory without the lazy conj and neg bits.
at::Tensor physical(const at::Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  at::Tensor plain(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      c10::VariableVersion(/*version=*/0), /*allow_tensor_metadata_change=*/true));
  plain._set_conj(false);
  plain._set_neg(false);
  return plain;
}

// Real or imaginary parts of a complex tensor, as a view.
at::Tensor part(const at::Tensor& complex, int64_t which) {
  const at::Tensor pairs = at::native::view_as_real(complex);
  return at::native::as_strided_tensorimpl(
      pairs, pairs.sizes().slice(0, pairs.dim() - 1), pairs.strides().slice(0, pairs.dim() - 1),
      pairs.storage_offset() + which);
}
constexpr int64_t kReal = 0;
constexpr int64_t kImaginary = 1;

// Tensors documented for aclnnInplaceCopy, complex ones apart: those are copied as pairs of reals.
bool copiesOnDevice(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kUInt16:
    case at::kUInt32:
    case at::kUInt64:
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
      return true;
    default:
      return false;
  }
}

// ... and the further ones that aclnnCast knows.
bool castsOnDevice(at::ScalarType type) {
  return copiesOnDevice(type) || type == at::kFloat8_e5m2 || type == at::kFloat8_e4m3fn;
}

at::ScalarType integerOfSize(size_t bytes) {
  switch (bytes) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, "copying npu tensors with elements of ", bytes, " bytes is not implemented");
  }
}

size_t byteCount(const at::Tensor& dense) {
  return static_cast<size_t>(dense.numel()) * dense.element_size();
}

// Same device, current; equal sizes; no lazy bits; no partial overlap.
void copyOnDevice(const at::Tensor& dst, const at::Tensor& src);

void copyRealsOnDevice(const at::Tensor& dst, const at::Tensor& src) {
  const at::ScalarType from = src.scalar_type();
  const at::ScalarType to = dst.scalar_type();
  if (copiesOnDevice(from) && copiesOnDevice(to)) {
    launch(cann::aclnnInplaceCopy, dst, src);
  } else if (from == to) {
    const at::ScalarType carrier = integerOfSize(src.element_size());
    launch(
        cann::aclnnInplaceCopy, at::native::view_dtype(dst, carrier),
        at::native::view_dtype(src, carrier));
  } else if (castsOnDevice(from) && castsOnDevice(to)) {
    launch(cann::aclnnCast, src, to, dst);
  } else {
    noteFallback("aten::_copy_from");
    const at::Tensor onHost = toHost(src);
    at::Tensor converted = at::empty_strided(
        onHost.sizes(), onHost.strides(), onHost.options().dtype(to));
    converted.copy_(onHost);
    copyTensor(dst, converted, /*nonBlocking=*/false);
  }
}

void copyOnDevice(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.numel() == 0) {
    return;
  }
  if (sameBytes(dst, src)) {
    if (dst.const_data_ptr() != src.const_data_ptr()) {
      const NPUStream stream = getCurrentStream();
      const size_t bytes = byteCount(dst);
      cann::aclrtMemcpyAsync.check(
          dst.mutable_data_ptr(), bytes, src.const_data_ptr(), bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
          stream.handle());
    }
    return;
  }
  const bool fromComplex = src.is_complex();
  const bool toComplex = dst.is_complex();
  if (fromComplex && toComplex) {
    copyOnDevice(at::native::view_as_real(dst), at::native::view_as_real(src));
  } else if (fromComplex && dst.scalar_type() == at::kBool) {  // true unless both parts are zero
    const at::Tensor imaginary = emptyContiguous(dst.sizes(), at::kBool, dst.device());
    at::Tensor result = emptyContiguous(dst.sizes(), at::kBool, dst.device());
    copyRealsOnDevice(result, part(src, kReal));
    copyRealsOnDevice(imaginary, part(src, kImaginary));
    at::logical_or_out(result, result, imaginary);
    copyOnDevice(dst, result);
  } else if (fromComplex) {
    copyRealsOnDevice(dst, part(src, kReal));
  } else if (toComplex) {
    copyRealsOnDevice(part(dst, kReal), src);
    launch(cann::aclnnInplaceZero, part(dst, kImaginary));
  } else {
    copyRealsOnDevice(dst, src);
  }
}

// Tells the host allocator that work on `stream` uses the block. If it is not the allocator's
// (memory that somebody wrapped), nobody could keep it alive: then the work is waited for.
void holdHostBlock(const c10::DataPtr& block, const NPUStream& stream) {
  if (!recordHostEvent(block.get(), block.get_context(), stream)) {
    stream.synchronize();
  }
}

// Dense blocks with the same bytes.
void upload(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking) {
  const NPUStream stream = getCurrentStream();
  const size_t bytes = byteCount(src);
  void* const to = dst.mutable_data_ptr();
  const void* const from = src.const_data_ptr();
  if (nonBlocking && isPinned(from)) {
    cann::aclrtMemcpyAsync.check(
        to, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream.handle());
    holdHostBlock(src.storage().data_ptr(), stream);
  } else if (nonBlocking && bytes <= kStagingBytes) {
    const c10::DataPtr staging = hostAllocator()->allocate(bytes);
    std::memcpy(staging.get(), from, bytes);
    cann::aclrtMemcpyAsync.check(
        to, bytes, staging.get(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream.handle());
    holdHostBlock(staging, stream);
  } else {
    stream.synchronize();
    useDevice();
    cann::aclrtMemcpy.check(to, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
}

void hostToDevice(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking) {
  const OnDevice scope(dst);
  at::Tensor source = src;
  if (!isDense(src)) {
    const auto strides = isDense(dst) && src.sizes() == dst.sizes()
        ? dst.strides().vec()
        : at::infer_dense_strides(src.sizes(), src.strides());
    source = at::empty_strided(src.sizes(), strides, src.options());
    source.copy_(src);
  }
  if (sameBytes(dst, source)) {
    upload(dst, source, nonBlocking);
    return;
  }
  const at::Tensor landing =
      emptyStrided(source.sizes(), source.strides(), source.scalar_type(), dst.device());
  if (castsOnDevice(source.scalar_type()) || source.is_complex() ||
      source.scalar_type() == dst.scalar_type()) {
    upload(landing, source, nonBlocking);
    copyOnDevice(dst, expanded(landing, dst.sizes()));
  } else {  // only the host can convert it
    at::Tensor converted = at::empty_strided(
        source.sizes(), source.strides(), source.options().dtype(dst.scalar_type()));
    converted.copy_(source);
    hostToDevice(dst, converted, nonBlocking);
  }
}

void deviceToHost(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking) {
  const OnDevice scope(src);
  const NPUStream stream = getCurrentStream();
  const bool direct = isDense(dst) && dst.sizes() == src.sizes();
  // What the device cannot convert, the host does after the transfer.
  const bool convertsHere = src.scalar_type() == dst.scalar_type() || src.is_complex() ||
      (castsOnDevice(src.scalar_type()) && (castsOnDevice(dst.scalar_type()) || dst.is_complex()));
  const at::ScalarType wireType = convertsHere ? dst.scalar_type() : src.scalar_type();
  at::Tensor landing = dst;
  if (!direct || wireType != dst.scalar_type()) {
    landing = at::empty_strided(
        src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()),
        dst.options().dtype(wireType));
  }
  at::Tensor wire = src;
  if (!sameBytes(src, landing)) {
    wire = emptyStrided(landing.sizes(), landing.strides(), wireType, src.device());
    copyOnDevice(wire, src);
  }
  const size_t bytes = byteCount(wire);
  void* const to = landing.mutable_data_ptr();
  if (nonBlocking && landing.is_same(dst) && isPinned(to)) {
    cann::aclrtMemcpyAsync.check(
        to, bytes, wire.const_data_ptr(), bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream.handle());
    holdHostBlock(dst.storage().data_ptr(), stream);
    return;
  }
  stream.synchronize();
  useDevice();
  cann::aclrtMemcpy.check(to, bytes, wire.const_data_ptr(), bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  if (!landing.is_same(dst)) {
    dst.copy_(landing);
  }
}

void betweenDevices(const at::Tensor& dst, const at::Tensor& src) {
  const int from = src.device().index();
  const int to = dst.device().index();
  if (!canAccessPeer(from, to)) {
    copyTensor(dst, toHost(src), /*nonBlocking=*/false);
    return;
  }
  enablePeerAccess(from, to);
  at::Tensor landing = dst;
  if (!isDense(dst) || dst.sizes() != src.sizes()) {
    landing = emptyStrided(
        src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()), dst.scalar_type(),
        dst.device());
  }
  const NPUStream source = getCurrentStream(from);
  const NPUStream target = getCurrentStream(to);
  {
    const OnDevice scope(dst);
    NPUEvent ready;  // what was done with the destination before
    ready.record(target);
    ready.block(source);
  }
  {
    const OnDevice scope(src);
    at::Tensor wire = src;
    if (!sameBytes(src, landing)) {
      wire = emptyStrided(landing.sizes(), landing.strides(), landing.scalar_type(), src.device());
      copyOnDevice(wire, src);
    }
    const size_t bytes = byteCount(wire);
    cann::aclrtMemcpyAsync.check(
        landing.mutable_data_ptr(), bytes, wire.const_data_ptr(), bytes,
        ACL_MEMCPY_DEVICE_TO_DEVICE, source.handle());
    NPUEvent done;
    done.record(source);
    done.block(target);
  }
  if (!landing.is_same(dst)) {
    const OnDevice scope(dst);
    copyOnDevice(dst, expanded(landing, dst.sizes()));
  }
}

void checkCopyable(const at::Tensor& tensor, const char* role) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      (isNpu(tensor) || tensor.is_cpu()) && tensor.layout() == at::Layout::Strided &&
          !tensor.is_quantized(),
      "copies between npu and ", tensor.device(), " tensors of layout ", tensor.layout(),
      tensor.is_quantized() ? " (quantised)" : "", " are not implemented (as ", role,
      "); go through a dense CPU tensor");
}

void copyPhysical(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking) {
  if (!isNpu(src)) {
    hostToDevice(dst, src, nonBlocking);
  } else if (!isNpu(dst)) {
    deviceToHost(dst, src, nonBlocking);
  } else if (dst.device() != src.device()) {
    betweenDevices(dst, src);
  } else {
    const OnDevice scope(dst);
    at::assert_no_partial_overlap(dst, src);
    copyOnDevice(dst, expanded(src, dst.sizes()));
  }
}

}  // namespace

void copyTensor(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking) {
  checkCopyable(dst, "destination");
  checkCopyable(src, "source");
  if (src.sizes() != dst.sizes()) {
    // raises if it cannot
    at::inferExpandGeometry_dimvector(src.sizes(), src.strides(), dst.sizes());
  }
  if (dst.numel() == 0) {
    return;
  }
  at::assert_no_internal_overlap(dst);
  if (src._is_zerotensor()) {  // has no memory to copy from
    at::Tensor zeros = dst;
    at::zero_(zeros);
    return;
  }
  const bool conjugate = src.is_conj() != dst.is_conj();
  const bool negate = src.is_neg() != dst.is_neg();
  const at::Tensor target = physical(dst);
  const bool fixOnHost = (conjugate || negate) && !isNpu(dst);
  copyPhysical(target, physical(src), nonBlocking && !fixOnHost);
  // A real destination keeps only the real part, which conjugation does not touch, and a boolean
  // one only whether the value is zero, which negation does not touch.
  if (conjugate && target.is_complex()) {
    at::Tensor imaginary = part(target, kImaginary);
    at::neg_(imaginary);
  }
  if (negate && target.scalar_type() != at::kBool) {
    at::Tensor whole = target;
    at::neg_(whole);
  }
}

at::Tensor toHost(const at::Tensor& tensor) {
  const auto strides = isDense(tensor)
      ? tensor.strides().vec()
      : at::infer_dense_strides(tensor.sizes(), tensor.strides());
  at::Tensor host = at::empty_strided(
      tensor.sizes(), strides, at::TensorOptions(tensor.scalar_type()).device(at::kCPU));
  copyTensor(host, tensor, /*nonBlocking=*/false);
  return host;
}

at::Tensor toDevice(const at::Tensor& tensor, c10::Device device) {
  const auto strides = isDense(tensor)
      ? tensor.strides().vec()
      : at::infer_dense_strides(tensor.sizes(), tensor.strides());
  const at::Tensor result = emptyStrided(tensor.sizes(), strides, tensor.scalar_type(), device);
  copyTensor(result, tensor, /*nonBlocking=*/false);
  return result;
}

at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool nonBlocking) {
  copyTensor(dst, self, nonBlocking);
  return dst;
}

at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) {
    dst.resize_(self.sizes());
  }
  copyTensor(dst, self, /*nonBlocking=*/false);
  return dst;
}

}  // namespace torch_npu::aten
