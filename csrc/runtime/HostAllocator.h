// Page-locked host memory: what pin_memory() and non_blocking device-to-host copies use.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "runtime/Stream.h"

namespace torch_npu {

// The host allocator registered for PrivateUse1; valid for the life of the process.
at::HostAllocator* hostAllocator();

// Whether `pointer` lies anywhere inside a page-locked block of ours. Makes no CANN call.
bool isPinned(const void* pointer);

// Keeps a page-locked block from reuse until the work queued on `stream` at its release is done.
// `context` is the DataPtr's context if known, else null (the block is then found by `pointer`,
// which must be the block's first byte). False: not a block of this allocator.
bool recordHostEvent(void* pointer, void* context, const NPUStream& stream);

}  // namespace torch_npu
