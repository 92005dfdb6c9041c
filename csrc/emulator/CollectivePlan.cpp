#include "emulator/CollectivePlan.h"

#include <algorithm>

#include "emulator/Collectives.h"
#include "emulator/Reduce.h"

namespace npu_emulator::hccl {

namespace {

// "rank 1", "ranks 0, 2-5".
std::string nameRanks(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) {
      text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    }
    i = last + 1;
  }
  return text;
}

std::string listOf(const uint64_t* values, uint32_t count) {
  constexpr uint32_t kShown = 16;
  std::string text = "[";
  for (uint32_t i = 0; i < std::min(count, kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + (count > kShown ? ", ...]" : "]");
}

bool sameCall(const Posting& a, const Posting& b) {
  if (a.operation != b.operation || a.root != b.root) {
    return false;
  }
  switch (a.operation) {
    case Operation::AlltoAllV:  // counts and types are checked pair by pair
    case Operation::AlltoAllVC:
      return true;
    case Operation::AllGatherV:  // what a rank brings is checked against the counts
    case Operation::ReduceScatterV:
      return a.dataType == b.dataType && a.reduceOp == b.reduceOp;
    default:
      return a.dataType == b.dataType && a.reduceOp == b.reduceOp && a.count == b.count;
  }
}

// Vectors that must be equal on all ranks.
std::string differingVectors(const Segment& segment, uint32_t ranks, Operation operation) {
  const VectorKind kind =
      operation == Operation::AllGatherV ? kReceiveCounts : kSendCounts;
  const char* what = operation == Operation::AllGatherV ? "recvCounts " : "sendCounts ";
  const uint64_t* first = segment.vector(0, kind);
  for (uint32_t r = 1; r < ranks; ++r) {
    const uint64_t* other = segment.vector(r, kind);
    if (!std::equal(first, first + ranks, other)) {
      return std::string("rank 0 gave ") + what + listOf(first, ranks) + ", rank " +
          std::to_string(r) + " gave " + listOf(other, ranks);
    }
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    const uint64_t own = segment.rank(r).posting.count;
    if (own != first[r]) {
      return "rank " + std::to_string(r) + " gave " +
          (operation == Operation::AllGatherV ? "sendCount " : "recvCount ") +
          std::to_string(own) + ", but all ranks gave " + std::to_string(first[r]) + " as its " +
          what;
    }
  }
  return "";
}

std::string differingPairs(const Segment& segment, uint32_t ranks) {
  for (uint32_t from = 0; from < ranks; ++from) {
    const Posting& sender = segment.rank(from).posting;
    for (uint32_t to = 0; to < ranks; ++to) {
      const Posting& receiver = segment.rank(to).posting;
      const uint64_t sent = segment.vector(from, kSendCounts)[to];
      const uint64_t received = segment.vector(to, kReceiveCounts)[from];
      if (sent != received || (sent != 0 && sender.dataType != receiver.receiveType)) {
        return "rank " + std::to_string(from) + " sends " + std::to_string(sent) + " x " +
            dataTypeName(sender.dataType) + " to rank " + std::to_string(to) +
            ", which expects " + std::to_string(received) + " x " +
            dataTypeName(receiver.receiveType) + " from it";
      }
    }
  }
  return "";
}

std::string differingMatrices(const Segment& segment, uint32_t ranks) {
  const Posting& first = segment.rank(0).posting;
  const uint64_t* matrix = segment.matrix(0);
  for (uint32_t r = 1; r < ranks; ++r) {
    const Posting& other = segment.rank(r).posting;
    if (first.dataType != other.dataType) {
      return "rank 0 gave " + dataTypeName(first.dataType) + ", rank " + std::to_string(r) + " " +
          dataTypeName(other.dataType);
    }
    const uint64_t* theirs = segment.matrix(r);
    for (uint32_t i = 0; i < ranks * ranks; ++i) {
      if (matrix[i] != theirs[i]) {
        return "sendCountMatrix[" + std::to_string(i / ranks) + "][" + std::to_string(i % ranks) +
            "] is " + std::to_string(matrix[i]) + " on rank 0 and " + std::to_string(theirs[i]) +
            " on rank " + std::to_string(r);
      }
    }
  }
  return "";
}

}  // namespace

const char* functionName(Operation operation) {
  switch (operation) {
    case Operation::None:
      return "nothing";
    case Operation::AllReduce:
      return "HcclAllReduce";
    case Operation::Reduce:
      return "HcclReduce";
    case Operation::Broadcast:
      return "HcclBroadcast";
    case Operation::AllGather:
      return "HcclAllGather";
    case Operation::AllGatherV:
      return "HcclAllGatherV";
    case Operation::ReduceScatter:
      return "HcclReduceScatter";
    case Operation::ReduceScatterV:
      return "HcclReduceScatterV";
    case Operation::Scatter:
      return "HcclScatter";
    case Operation::AlltoAll:
      return "HcclAlltoAll";
    case Operation::AlltoAllV:
      return "HcclAlltoAllV";
    case Operation::AlltoAllVC:
      return "HcclAlltoAllVC";
  }
  return "an unknown operation";
}

bool hasRoot(Operation operation) {
  return operation == Operation::Reduce || operation == Operation::Broadcast ||
      operation == Operation::Scatter;
}

bool reduces(Operation operation) {
  return operation == Operation::AllReduce || operation == Operation::Reduce ||
      operation == Operation::ReduceScatter || operation == Operation::ReduceScatterV;
}

std::string describePosting(const Posting& posting) {
  std::string text = functionName(posting.operation);
  const bool perPair =
      posting.operation == Operation::AlltoAllV || posting.operation == Operation::AlltoAllVC;
  text += perPair ? "(" : "(count=" + std::to_string(posting.count) + ", ";
  text += dataTypeName(posting.dataType);
  if (reduces(posting.operation)) {
    text += ", " + reduceOpName(posting.reduceOp);
  }
  if (hasRoot(posting.operation)) {
    text += ", root=" + std::to_string(posting.root);
  }
  return text + ")";
}

std::string findMismatch(const Segment& segment, uint32_t ranks, const std::string& communicator) {
  const Posting& first = segment.rank(0).posting;
  const std::string where = "mismatch in communicator '" + communicator + "' at collective #" +
      std::to_string(first.sequence) + ": ";
  std::vector<std::vector<uint32_t>> groups;
  for (uint32_t r = 0; r < ranks; ++r) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& members) {
      return sameCall(segment.rank(members[0]).posting, segment.rank(r).posting);
    });
    if (group == groups.end()) {
      groups.push_back({r});
    } else {
      group->push_back(r);
    }
  }
  if (groups.size() > 1) {
    std::string text = where;
    for (const auto& members : groups) {
      text += nameRanks(members) + " called " +
          describePosting(segment.rank(members[0]).posting) + "; ";
    }
    return text + "every rank must call the same operations in the same order with the same values";
  }
  std::string detail;
  if (first.operation == Operation::AllGatherV || first.operation == Operation::ReduceScatterV) {
    detail = differingVectors(segment, ranks, first.operation);
  } else if (first.operation == Operation::AlltoAllV) {
    detail = differingPairs(segment, ranks);
  } else if (first.operation == Operation::AlltoAllVC) {
    detail = differingMatrices(segment, ranks);
  }
  return detail.empty() ? "" : where + functionName(first.operation) + ": " + detail;
}

Plan::Plan(const Segment& segment, uint32_t ranks) : ranks_(ranks) {
  const Posting& posting = segment.rank(0).posting;
  const uint64_t size = elementSize(posting.dataType);
  const uint64_t bytes = posting.count * size;
  const int n = static_cast<int>(ranks);
  switch (posting.operation) {
    case Operation::None:
      break;
    case Operation::AllReduce:
      add({.bytes = bytes});
      break;
    case Operation::Reduce:
      add({.bytes = bytes, .target = static_cast<int>(posting.root)});
      break;
    case Operation::Broadcast:
      add({.bytes = bytes, .source = static_cast<int>(posting.root)});
      break;
    case Operation::AllGather:
      for (int r = 0; r < n; ++r) {
        add({.bytes = bytes, .source = r, .targetOffset = r * bytes});
      }
      break;
    case Operation::AllGatherV:
      for (int r = 0; r < n; ++r) {
        add({.bytes = segment.vector(0, kReceiveCounts)[r] * size,
             .source = r,
             .targetVector = kReceiveOffsets,
             .index = static_cast<uint32_t>(r)});
      }
      break;
    case Operation::ReduceScatter:
      for (int r = 0; r < n; ++r) {
        add({.bytes = bytes, .target = r, .sourceOffset = r * bytes});
      }
      break;
    case Operation::ReduceScatterV:
      for (int r = 0; r < n; ++r) {
        add({.bytes = segment.vector(0, kSendCounts)[r] * size,
             .target = r,
             .sourceVector = kSendOffsets,
             .index = static_cast<uint32_t>(r)});
      }
      break;
    case Operation::Scatter:
      for (int r = 0; r < n; ++r) {
        add({.bytes = bytes,
             .source = static_cast<int>(posting.root),
             .target = r,
             .sourceOffset = r * bytes});
      }
      break;
    case Operation::AlltoAll:
      for (int from = 0; from < n; ++from) {
        for (int to = 0; to < n; ++to) {
          add({.bytes = bytes,
               .source = from,
               .target = to,
               .sourceOffset = to * bytes,
               .targetOffset = from * bytes});
        }
      }
      break;
    case Operation::AlltoAllV:
      for (int from = 0; from < n; ++from) {
        const uint64_t sent = elementSize(segment.rank(from).posting.dataType);
        for (int to = 0; to < n; ++to) {
          add({.bytes = segment.vector(from, kSendCounts)[to] * sent,
               .source = from,
               .target = to,
               .sourceOffset = segment.vector(from, kSendOffsets)[to] * sent,
               .targetOffset = segment.vector(to, kReceiveOffsets)[from] * sent});
        }
      }
      break;
    case Operation::AlltoAllVC: {
      const uint64_t* matrix = segment.matrix(0);
      std::vector<uint64_t> received(ranks, 0);
      for (int from = 0; from < n; ++from) {
        uint64_t sent = 0;
        for (int to = 0; to < n; ++to) {
          const uint64_t part = matrix[size_t(from) * ranks + to] * size;
          add({.bytes = part,
               .source = from,
               .target = to,
               .sourceOffset = sent,
               .targetOffset = received[to]});
          sent += part;
          received[to] += part;
        }
      }
      break;
    }
  }
}

void Plan::add(const Transfer& transfer) {
  if (transfer.bytes == 0) {
    return;
  }
  transfers_.push_back(transfer);
  traffic_ += transfer.bytes *
      ((transfer.source == Transfer::kAll ? ranks_ : 1) +
       (transfer.target == Transfer::kAll ? ranks_ : 1));
  largest_ = std::max(largest_, transfer.bytes);
}

uint64_t Plan::chunks(uint64_t chunkBytes) const {
  uint64_t total = 0;
  for (const Transfer& transfer : transfers_) {
    total += (transfer.bytes + chunkBytes - 1) / chunkBytes;
  }
  return total;
}

Plan::Chunk Plan::chunk(uint64_t number, uint64_t chunkBytes) const {
  for (const Transfer& transfer : transfers_) {
    const uint64_t own = (transfer.bytes + chunkBytes - 1) / chunkBytes;
    if (number < own) {
      const uint64_t begin = number * chunkBytes;
      return {&transfer, begin, std::min(begin + chunkBytes, transfer.bytes)};
    }
    number -= own;
  }
  return {nullptr, 0, 0};
}

}  // namespace npu_emulator::hccl
