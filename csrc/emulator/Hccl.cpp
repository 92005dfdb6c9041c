// HCCL's collectives, sends and receives. Communicators are made and ended in HcclComm.cpp.
#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/Abi.h"
#include "emulator/HcclCall.h"
#include "emulator/Reduce.h"

using namespace npu_emulator::hccl;

namespace {

CollectiveCall newCall(
    const char* function, Operation operation, HcclDataType dataType, uint64_t count) {
  CollectiveCall call;
  call.function = function;
  call.operation = operation;
  call.dataType = checkedType(dataType, function);
  call.receiveType = call.dataType;
  call.count = count;
  return call;
}

void setReduction(CollectiveCall& call, HcclReduceOp op) {
  checkReducible(call.dataType, op, call.function);
  call.reduceOp = op;
}

void setInput(
    CollectiveCall& call, const Communicator& communicator, const void* data, uint64_t bytes) {
  call.input = communicator.describeBuffer(
      data, bytes, elementSize(call.dataType), call.function, "sendBuf");
}

void setOutput(
    CollectiveCall& call, const Communicator& communicator, const void* data, uint64_t bytes) {
  call.output = communicator.describeBuffer(
      data, bytes, elementSize(call.receiveType), call.function, "recvBuf");
}

// Copies a caller's array of one count or displacement for each rank.
std::vector<uint64_t> copyVector(
    const void* values, uint32_t ranks, const char* function, const char* what) {
  requirePointer(values, function, what);
  std::vector<uint64_t> copy(ranks);
  std::memcpy(copy.data(), values, ranks * sizeof(uint64_t));
  return copy;
}

// Bytes up to the end of the last block.
uint64_t extentOf(
    const std::vector<uint64_t>& counts, const std::vector<uint64_t>& offsets, uint32_t dataType,
    const char* function) {
  uint64_t elements = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      continue;
    }
    uint64_t end = 0;
    if (__builtin_add_overflow(counts[i], offsets[i], &end)) {
      end = ~uint64_t{0};
    }
    elements = std::max(elements, end);
  }
  return bytesOf(elements, 1, dataType, function);
}

Message newMessage(
    const char* function, HcclComm comm, bool sending, const void* data, uint64_t count,
    HcclDataType dataType, uint32_t peer) {
  Message message;
  message.communicator = communicatorOf(comm, function);
  message.sending = sending;
  message.peer = peer;
  message.dataType = checkedType(dataType, function);
  message.count = count;
  checkRank(*message.communicator, peer, function, sending ? "destRank" : "srcRank");
  message.buffer = message.communicator->describeBuffer(
      data, bytesOf(count, 1, dataType, function), elementSize(dataType), function,
      sending ? "sendBuf" : "recvBuf");
  return message;
}

}  // namespace

HcclResult HcclAllReduce(
    void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclAllReduce";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::AllReduce, dataType, count);
    setReduction(call, op);
    const uint64_t bytes = bytesOf(count, 1, dataType, kName);
    setInput(call, *communicator, sendBuf, bytes);
    setOutput(call, *communicator, recvBuf, bytes);
    checkOverlap(call, 0, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclReduce(
    void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclReduce";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::Reduce, dataType, count);
    setReduction(call, op);
    checkRank(*communicator, root, kName, "root");
    call.root = root;
    const uint64_t bytes = bytesOf(count, 1, dataType, kName);
    setInput(call, *communicator, sendBuf, bytes);
    if (communicator->rank() == root) {
      setOutput(call, *communicator, recvBuf, bytes);
      checkOverlap(call, 0, 0);
    }
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclBroadcast(
    void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
    aclrtStream stream) {
  constexpr const char* kName = "HcclBroadcast";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::Broadcast, dataType, count);
    checkRank(*communicator, root, kName, "root");
    call.root = root;
    call.output = communicator->describeBuffer(
        buf, bytesOf(count, 1, dataType, kName), elementSize(dataType), kName, "buf");
    call.input = call.output;
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclAllGather(
    void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
    aclrtStream stream) {
  constexpr const char* kName = "HcclAllGather";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::AllGather, dataType, sendCount);
    const uint64_t bytes = bytesOf(sendCount, 1, dataType, kName);
    setInput(call, *communicator, sendBuf, bytes);
    setOutput(
        call, *communicator, recvBuf, bytesOf(sendCount, communicator->ranks(), dataType, kName));
    checkOverlap(call, 0, communicator->rank() * bytes);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclAllGatherV(
    void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
    const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclAllGatherV";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    const uint32_t ranks = communicator->ranks();
    CollectiveCall call = newCall(kName, Operation::AllGatherV, dataType, sendCount);
    auto& counts = call.vectors[kReceiveCounts];
    auto& offsets = call.vectors[kReceiveOffsets];
    counts = copyVector(recvCounts, ranks, kName, "recvCounts");
    offsets = copyVector(recvDispls, ranks, kName, "recvDispls");
    setInput(call, *communicator, sendBuf, bytesOf(sendCount, 1, dataType, kName));
    setOutput(call, *communicator, recvBuf, extentOf(counts, offsets, dataType, kName));
    checkOverlap(call, 0, offsets[communicator->rank()] * elementSize(dataType));
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclReduceScatter(
    void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclReduceScatter";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::ReduceScatter, dataType, recvCount);
    setReduction(call, op);
    const uint64_t bytes = bytesOf(recvCount, 1, dataType, kName);
    setInput(
        call, *communicator, sendBuf, bytesOf(recvCount, communicator->ranks(), dataType, kName));
    setOutput(call, *communicator, recvBuf, bytes);
    checkOverlap(call, communicator->rank() * bytes, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclReduceScatterV(
    void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
    uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclReduceScatterV";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    const uint32_t ranks = communicator->ranks();
    CollectiveCall call = newCall(kName, Operation::ReduceScatterV, dataType, recvCount);
    setReduction(call, op);
    auto& counts = call.vectors[kSendCounts];
    auto& offsets = call.vectors[kSendOffsets];
    counts = copyVector(sendCounts, ranks, kName, "sendCounts");
    offsets = copyVector(sendDispls, ranks, kName, "sendDispls");
    setInput(call, *communicator, sendBuf, extentOf(counts, offsets, dataType, kName));
    setOutput(call, *communicator, recvBuf, bytesOf(recvCount, 1, dataType, kName));
    checkOverlap(call, offsets[communicator->rank()] * elementSize(dataType), 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclScatter(
    void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclScatter";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    CollectiveCall call = newCall(kName, Operation::Scatter, dataType, recvCount);
    checkRank(*communicator, root, kName, "root");
    call.root = root;
    const uint64_t bytes = bytesOf(recvCount, 1, dataType, kName);
    if (communicator->rank() == root) {
      setInput(
          call, *communicator, sendBuf, bytesOf(recvCount, communicator->ranks(), dataType, kName));
    }
    setOutput(call, *communicator, recvBuf, bytes);
    checkOverlap(call, root * bytes, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclAlltoAll(
    const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclAlltoAll";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    const uint32_t ranks = communicator->ranks();
    CollectiveCall call = newCall(kName, Operation::AlltoAll, sendType, sendCount);
    call.receiveType = checkedType(recvType, kName);
    if (sendType != recvType || sendCount != recvCount) {
      throw Failure(
          HCCL_E_PARA,
          std::string(kName) + ": sends " + std::to_string(sendCount) + " x " +
              dataTypeName(sendType) + " but receives " + std::to_string(recvCount) + " x " +
              dataTypeName(recvType) + " from each rank; both must be equal");
    }
    setInput(call, *communicator, sendBuf, bytesOf(sendCount, ranks, sendType, kName));
    setOutput(call, *communicator, recvBuf, bytesOf(recvCount, ranks, recvType, kName));
    checkOverlap(call, kNeverInPlace, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclAlltoAllV(
    const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
    const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
    HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclAlltoAllV";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    const uint32_t ranks = communicator->ranks();
    CollectiveCall call = newCall(kName, Operation::AlltoAllV, sendType, 0);
    call.receiveType = checkedType(recvType, kName);
    auto& vectors = call.vectors;
    vectors[kSendCounts] = copyVector(sendCounts, ranks, kName, "sendCounts");
    vectors[kSendOffsets] = copyVector(sdispls, ranks, kName, "sdispls");
    vectors[kReceiveCounts] = copyVector(recvCounts, ranks, kName, "recvCounts");
    vectors[kReceiveOffsets] = copyVector(rdispls, ranks, kName, "rdispls");
    setInput(
        call, *communicator, sendBuf,
        extentOf(vectors[kSendCounts], vectors[kSendOffsets], sendType, kName));
    setOutput(
        call, *communicator, recvBuf,
        extentOf(vectors[kReceiveCounts], vectors[kReceiveOffsets], recvType, kName));
    checkOverlap(call, kNeverInPlace, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclAlltoAllVC(
    const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
    HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclAlltoAllVC";
  return entry(kName, [&] {
    const auto communicator = communicatorOf(comm, kName);
    const uint32_t ranks = communicator->ranks();
    CollectiveCall call = newCall(kName, Operation::AlltoAllVC, sendType, 0);
    if (sendType != recvType) {
      throw Failure(
          HCCL_E_PARA,
          std::string(kName) + ": sendType " + dataTypeName(sendType) + " and recvType " +
              dataTypeName(recvType) + " must be equal");
    }
    call.matrix = copyVector(sendCountMatrix, ranks * ranks, kName, "sendCountMatrix");
    uint64_t sent = 0;
    uint64_t received = 0;
    const uint64_t self = communicator->rank();
    for (uint64_t r = 0; r < ranks; ++r) {
      bytesOf(call.matrix[self * ranks + r], 1, sendType, kName);
      bytesOf(call.matrix[r * ranks + self], 1, sendType, kName);
      sent += call.matrix[self * ranks + r];
      received += call.matrix[r * ranks + self];
    }
    setInput(call, *communicator, sendBuf, bytesOf(sent, 1, sendType, kName));
    setOutput(call, *communicator, recvBuf, bytesOf(received, 1, sendType, kName));
    checkOverlap(call, kNeverInPlace, 0);
    enqueueCollective(communicator, std::move(call), stream);
  });
}

HcclResult HcclSend(
    void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
    aclrtStream stream) {
  constexpr const char* kName = "HcclSend";
  return entry(kName, [&] {
    std::vector<Message> messages;
    messages.push_back(newMessage(kName, comm, true, sendBuf, count, dataType, destRank));
    submit(kName, std::move(messages), stream);
  });
}

HcclResult HcclRecv(
    void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
    aclrtStream stream) {
  constexpr const char* kName = "HcclRecv";
  return entry(kName, [&] {
    std::vector<Message> messages;
    messages.push_back(newMessage(kName, comm, false, recvBuf, count, dataType, srcRank));
    submit(kName, std::move(messages), stream);
  });
}

HcclResult HcclBatchSendRecv(
    HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
  constexpr const char* kName = "HcclBatchSendRecv";
  return entry(kName, [&] {
    if (itemNum == 0) {
      throw Failure(HCCL_E_PARA, std::string(kName) + ": itemNum is 0");
    }
    requirePointer(sendRecvInfo, kName, "sendRecvInfo");
    std::vector<Message> messages;
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = sendRecvInfo[i];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
        throw Failure(
            HCCL_E_PARA,
            std::string(kName) + ": item " + std::to_string(i) + " has sendRecvType " +
                std::to_string(static_cast<uint32_t>(item.sendRecvType)) +
                ", expected HCCL_SEND (0) or HCCL_RECV (1)");
      }
      messages.push_back(newMessage(
          kName, comm, item.sendRecvType == HCCL_SEND, item.buf, item.count, item.dataType,
          item.remoteRank));
    }
    submit(kName, std::move(messages), stream);
  });
}

HcclResult HcclGroupStart(void) {
  return entry("HcclGroupStart", [] { beginGroup(); });
}

HcclResult HcclGroupEnd(void) {
  return entry("HcclGroupEnd", [] { endGroup(); });
}
