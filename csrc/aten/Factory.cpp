#include "aten/Factory.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DefaultDtype.h>

#include <vector>

#include "aten/Launch.h"
#include "runtime/CachingAllocator.h"
#include "runtime/Storage.h"

namespace torch_npu::aten {
namespace {

constexpr c10::DispatchKeySet kNpuKeys(c10::DispatchKey::PrivateUse1);

c10::Device chosenDevice(const std::optional<at::Device>& device) {
  if (!device.has_value()) {
    return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(currentDevice())};
  }
  TORCH_CHECK_VALUE(
      device->type() == c10::DeviceType::PrivateUse1, "expected an npu device, got ", *device);
  const int index = checkedDevice(device->index());
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

void checkOptions(const std::optional<at::Layout>& layout, const std::optional<bool>& pinMemory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(at::Layout::Strided) == at::Layout::Strided,
      "npu tensors have the layout torch.strided only, got ", *layout,
      "; make the sparse tensor on the CPU");
  TORCH_CHECK_VALUE(
      !pinMemory.value_or(false),
      "only tensors in host memory can be pinned, and this one is on an npu device: leave out "
      "pin_memory=True or use device='cpu'");
}

bool mustFill() {
  const auto& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor filledIfDeterministic(at::Tensor tensor) {
  if (mustFill()) [[unlikely]] {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

// Storages keep a pointer to their allocator, so there is one per device for ever.
at::Allocator* zeroAllocator(c10::Device device) {
  static const auto* const all = [] {
    auto* made = new std::vector<at::native::ZeroTensorAllocator*>;
    for (int i = 0; i < kMaxDevices; ++i) {
      made->push_back(new at::native::ZeroTensorAllocator(
          {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(i)}));
    }
    return made;
  }();
  return all->at(device.index());
}

// Gives the tensor a shape; its storage grows if it must (and keeps its contents).
void resizeImpl(
    c10::TensorImpl* self, at::IntArrayRef sizes, const at::OptionalIntArrayRef& strides) {
  if (self->sizes() == sizes && (!strides.has_value() || self->strides() == *strides)) {
    return;
  }
  const size_t itemBytes = self->dtype().itemsize();
  const auto offset = static_cast<size_t>(self->storage_offset());
  size_t needed = 0;
  if (strides.has_value()) {
    self->set_sizes_and_strides(sizes, *strides);
    needed = at::detail::computeStorageNbytes(sizes, *strides, itemBytes, offset);
  } else {
    self->set_sizes_contiguous(sizes);
    needed = at::detail::computeStorageNbytesContiguous(sizes, itemBytes, offset);
  }
  if (self->numel() == 0) {
    return;  // may sit at any offset, even past the end
  }
  c10::StorageImpl* storage = self->unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK(storage != nullptr, "this npu tensor has no storage that could be resized");
  if (needed > storage->nbytes()) {
    resizeStorage(*storage, needed);
  }
}

}  // namespace

at::Tensor emptyStrided(
    at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::Device device) {
  const OnDevice scope(device);
  return at::detail::empty_strided_generic(sizes, strides, cachingAllocator(), kNpuKeys, dtype);
}

at::Tensor emptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  const OnDevice scope(device);
  return at::detail::empty_generic(sizes, cachingAllocator(), kNpuKeys, dtype, std::nullopt);
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinMemory,
    std::optional<at::MemoryFormat> memoryFormat) {
  checkOptions(layout, pinMemory);
  const OnDevice scope(chosenDevice(device));
  return filledIfDeterministic(at::detail::empty_generic(
      size, cachingAllocator(), kNpuKeys, c10::dtype_or_default(dtype), memoryFormat));
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout, std::optional<at::Device> device,
    std::optional<bool> pinMemory) {
  checkOptions(layout, pinMemory);
  return filledIfDeterministic(
      emptyStrided(size, stride, c10::dtype_or_default(dtype), chosenDevice(device)));
}

at::Tensor _efficientzerotensor(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinMemory) {
  checkOptions(layout, pinMemory);
  return at::detail::empty_generic(
      size, zeroAllocator(chosenDevice(device)), kNpuKeys.add(c10::DispatchKey::ZeroTensor),
      c10::dtype_or_default(dtype), std::nullopt);
}

const at::Tensor& resize_(
    const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memoryFormat) {
  const OnDevice scope(self);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t bytesBefore = self.storage().nbytes();
  resizeImpl(impl, size, std::nullopt);
  if (memoryFormat.has_value()) {
    TORCH_CHECK_VALUE(
        *memoryFormat != at::MemoryFormat::Preserve, "resize_ does not accept ", *memoryFormat,
        ": name the memory format that the tensor shall have");
    impl->empty_tensor_restride(*memoryFormat);
  }
  if (mustFill() && self.storage().nbytes() > bytesBefore) [[unlikely]] {
    const auto itemBytes = static_cast<int64_t>(self.element_size());
    const int64_t kept = static_cast<int64_t>(bytesBefore) / itemBytes;
    const int64_t all = static_cast<int64_t>(self.storage().nbytes()) / itemBytes;
    at::Tensor added = emptyContiguous({0}, self.scalar_type(), self.device());
    set_source_Storage_storage_offset(added, self.storage(), kept, {all - kept}, {});
    at::native::fill_empty_deterministic_(added);
  }
  return self;
}

at::Tensor& set_(at::Tensor& self) {
  const OnDevice scope(self);
  c10::Allocator* allocator = cachingAllocator();
  at::Storage empty(c10::Storage::use_byte_size_t(), 0, allocator->allocate(0), allocator, true);
  return set_source_Storage_storage_offset(self, std::move(empty), 0, {0}, {});
}

at::Tensor& set_source_Storage_storage_offset(
    at::Tensor& self, at::Storage source, int64_t storageOffset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  at::native::checkSetStorage<int64_t>(self, std::move(source), storageOffset, size, stride);
  const OnDevice scope(self);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storageOffset);
  // No strides given means contiguous; a zero-dimensional tensor has none to give.
  resizeImpl(
      impl, size,
      stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : at::OptionalIntArrayRef());
  return self;
}

void record_stream(at::Tensor& self, at::Stream stream) {
  recordStream(self.storage().data_ptr(), NPUStream(stream));
}

bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  // Lets Module.to("npu") and `param.data = npu_tensor` keep the Parameter object. Any dense tensor
  // of the host or of an npu device is the same TensorImpl class.
  const auto isPlain = [](const at::Tensor& tensor) {
    return (tensor.is_cpu() || tensor.is_privateuseone()) &&
        tensor.layout() == at::Layout::Strided && !tensor.is_quantized() && !tensor.is_nested() &&
        !tensor.key_set().has(c10::DispatchKey::Python);
  };
  return isPlain(self) && isPlain(from);
}

}  // namespace torch_npu::aten
