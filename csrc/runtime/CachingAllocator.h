// The device memory allocator behind every npu tensor.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <vector>

#include "runtime/Stream.h"

namespace torch_npu {

// The allocator registered for PrivateUse1; valid for the life of the process.
c10::DeviceAllocator* cachingAllocator();

// Memory of the stream's device, ordered by that stream: once freed it is handed out again to the
// same stream without waiting. Zero bytes give a null pointer that still carries the device.
c10::DataPtr allocateOnStream(size_t bytes, const NPUStream& stream);

// The memory is also used by work on `stream`: after its release it is kept back until the work
// that is queued on `stream` at that moment is done. Pointers that are not ours are ignored.
void recordStream(const c10::DataPtr& pointer, const NPUStream& stream);

// Gives cached, unused segments of one device (-1: all) back to CANN. Synchronises the device.
void emptyCache(int device = -1);

// At most `fraction` (0..1) of the device's memory may be reserved by this process.
void setMemoryFraction(double fraction, int device);
double memoryFraction(int device);

// Every segment held now, with its blocks, in torch's own snapshot structs.
std::vector<c10::CachingDeviceAllocator::SegmentInfo> memorySnapshot();

}  // namespace torch_npu
