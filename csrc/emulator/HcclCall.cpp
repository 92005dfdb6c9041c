#include "emulator/HcclCall.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "emulator/Reduce.h"

namespace npu_emulator::hccl {

namespace {

// The group of HcclGroupStart that this thread is in.
struct Group {
  int depth = 0;
  // In the order of first use of each stream.
  std::vector<std::pair<aclrtStream, std::vector<Message>>> streams;
};
thread_local Group group;

}  // namespace

std::shared_ptr<Communicator> communicatorOf(HcclComm handle, const char* function) {
  auto communicator = findHandle(handle);
  if (!communicator) {
    throw Failure(
        handle == nullptr ? HCCL_E_PTR : HCCL_E_PARA,
        std::string(function) +
            (handle == nullptr ? ": the communicator is null"
                               : ": no such communicator; was it destroyed?"));
  }
  return communicator;
}

void requirePointer(const void* pointer, const char* function, const char* what) {
  if (pointer == nullptr) {
    throw Failure(HCCL_E_PTR, std::string(function) + ": " + what + " is a null pointer");
  }
}

uint32_t checkedType(HcclDataType type, const char* function) {
  if (elementSize(type) == 0) {
    throw Failure(
        HCCL_E_PARA,
        std::string(function) + ": " + std::to_string(static_cast<uint32_t>(type)) +
            " is no HcclDataType");
  }
  return type;
}

void checkReducible(uint32_t dataType, uint32_t reduceOp, const char* function) {
  const std::string why = whyNotReducible(dataType, reduceOp);
  if (!why.empty()) {
    throw Failure(
        reduceOp > HCCL_REDUCE_MIN ? HCCL_E_PARA : HCCL_E_NOT_SUPPORT,
        std::string(function) + ": " + why);
  }
}

void checkRank(
    const Communicator& communicator, uint32_t rank, const char* function, const char* what) {
  if (rank >= communicator.ranks()) {
    throw Failure(
        HCCL_E_PARA,
        std::string(function) + ": " + what + " " + std::to_string(rank) + " is not in 0.." +
            std::to_string(communicator.ranks() - 1) + " of communicator '" +
            communicator.name() + "'");
  }
}

uint64_t bytesOf(uint64_t count, uint64_t times, uint32_t dataType, const char* function) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, times, &bytes) ||
      __builtin_mul_overflow(bytes, elementSize(dataType), &bytes) || bytes > uint64_t{1} << 62) {
    throw Failure(
        HCCL_E_PARA,
        std::string(function) + ": " + std::to_string(count) + " elements of " +
            dataTypeName(dataType) + " are more than memory can hold");
  }
  return bytes;
}

void checkOverlap(const CollectiveCall& call, uint64_t inputOffset, uint64_t outputOffset) {
  const std::byte* in = call.input.data;
  const std::byte* out = call.output.data;
  const bool apart = in == nullptr || out == nullptr || in + call.input.bytes <= out ||
      out + call.output.bytes <= in;
  const bool inPlace = inputOffset != kNeverInPlace && in + inputOffset == out + outputOffset;
  if (!apart && !inPlace) {
    throw Failure(
        HCCL_E_PARA,
        std::string(call.function) +
            ": sendBuf and recvBuf overlap, and not in the way of an in-place call" +
            (inputOffset == kNeverInPlace ? " (this operation has none)" : "") +
            "; the result would depend on the order of the copies");
  }
}

void submit(const char* function, std::vector<Message> messages, aclrtStream stream) {
  if (group.depth == 0) {
    enqueueMessages(function, std::move(messages), stream);
    return;
  }
  auto entry = std::find_if(group.streams.begin(), group.streams.end(), [&](const auto& item) {
    return item.first == stream;
  });
  if (entry == group.streams.end()) {
    entry = group.streams.emplace(entry, stream, std::vector<Message>());
  }
  std::move(messages.begin(), messages.end(), std::back_inserter(entry->second));
}

void beginGroup() { ++group.depth; }

void endGroup() {
  if (group.depth == 0) {
    throw Failure(HCCL_E_PARA, "HcclGroupEnd: no HcclGroupStart came before on this thread");
  }
  if (--group.depth > 0) {
    return;
  }
  auto streams = std::exchange(group.streams, {});
  for (auto& [stream, messages] : streams) {
    enqueueMessages("HcclGroupEnd", std::move(messages), stream);
  }
}

void notSupported(const char* why) { throw Failure(HCCL_E_NOT_SUPPORT, why); }

}  // namespace npu_emulator::hccl
