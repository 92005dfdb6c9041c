// Collectives that send different data to different ranks, and the barrier.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "cann/Hccl.h"
#include "distributed/ProcessGroupHCCL.h"
#include "distributed/TensorChecks.h"

namespace torch_npu::distributed {
namespace {

using c10d::OpType;

// How many wire elements go to (or come from) each rank, and where they start.
struct Layout {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;

  explicit Layout(std::vector<uint64_t> perRank)
      : counts(std::move(perRank)), offsets(counts.size()) {
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), uint64_t{0});
  }
};

// `splits` are rows of the first axis; none means equal parts.
Layout layoutOf(
    const at::Tensor& tensor, const std::vector<int64_t>& splits, const WireType& wire, int size,
    const char* operation, const char* what) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const uint64_t perRow = rows == 0 ? 0 : wireCount(tensor, wire) / static_cast<uint64_t>(rows);
  std::vector<uint64_t> counts;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(
        rows % size == 0, operation, ": the first axis of the ", what, " has length ", rows,
        ", which does not divide among ", size, " ranks; give ", what, "_split_sizes");
    counts.assign(size, static_cast<uint64_t>(rows / size) * perRow);
    return Layout(std::move(counts));
  }
  TORCH_CHECK_VALUE(
      splits.size() == static_cast<size_t>(size), operation, ": expected ", size, " ", what,
      "_split_sizes, one for each rank, got ", splits.size());
  int64_t sum = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK_VALUE(
        split >= 0, operation, ": ", what, "_split_sizes must not be negative, got ", split);
    sum += split;
    counts.push_back(static_cast<uint64_t>(split) * perRow);
  }
  TORCH_CHECK_VALUE(
      sum == rows, operation, ": the ", what, "_split_sizes sum up to ", sum,
      ", but the first axis of the ", what, " has length ", rows);
  return Layout(std::move(counts));
}

Layout layoutOf(const std::vector<at::Tensor>& tensors, const WireType& wire) {
  std::vector<uint64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(wireCount(tensor, wire));
  return Layout(std::move(counts));
}

at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(asBytes(tensor).reshape({-1}));
  return at::cat(flat);
}

int64_t elementsOf(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(
      tensors.begin(), tensors.end(), int64_t{0},
      [](int64_t sum, const at::Tensor& tensor) { return sum + tensor.numel(); });
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  int64_t start = 0;
  for (const at::Tensor& tensor : tensors) {
    asBytes(tensor).copy_(asBytes(flat).narrow(0, start, tensor.numel()).view_as(tensor));
    start += tensor.numel();
  }
}

void exchange(
    const at::Tensor& input, const Layout& send, const at::Tensor& output, const Layout& receive,
    const WireType& wire, HcclComm communicator, aclrtStream stream) {
  cann::HcclAlltoAllV.check(
      pointer(input), send.counts.data(), send.offsets.data(), wire.type, pointer(output),
      receive.counts.data(), receive.offsets.data(), wire.type, communicator, stream);
}

}  // namespace

ProcessGroupHCCL::Work ProcessGroupHCCL::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& outputSplits,
    std::vector<int64_t>& inputSplits, const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all_single";
  if (input.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) {
      return cpu.alltoall_base(output, input, outputSplits, inputSplits, options);
    });
  }
  checkContiguous(input, kName);
  checkContiguous(output, kName);
  checkSameDtype(output, input, kName);
  const WireType wire = wireType(input.scalar_type(), kName);
  const Layout send = layoutOf(input, inputSplits, wire, size_, kName, "input");
  const Layout receive = layoutOf(output, outputSplits, wire, size_, kName, "output");
  const bool even = inputSplits.empty() && outputSplits.empty();
  if (even) checkElements(output.numel(), input.numel(), kName, "the output");
  return launch(
      {OpType::ALLTOALL_BASE, kName, {input}, {output}, options.timeout, even ? "" : "uneven"},
      [&](const Target& to) {
        // Equal splits of one rank say nothing about the others', so the general form serves all.
        exchange(input, send, output, receive, wire, to.communicator, to.stream);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  checkLength(inputs.size(), size_, kName, "input tensors, one for each rank");
  checkLength(outputs.size(), size_, kName, "output tensors, one for each rank");
  if (inputs.front().is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.alltoall(outputs, inputs, options); });
  }
  checkAlike(inputs, kName);
  checkAlike(outputs, kName);
  checkSameDtype(outputs.front(), inputs.front(), kName);
  checkElements(outputs[rank_].numel(), inputs[rank_].numel(), kName, "this rank's own output");
  const WireType wire = wireType(inputs.front().scalar_type(), kName);
  const Layout send = layoutOf(inputs, wire);
  const Layout receive = layoutOf(outputs, wire);
  return launch({OpType::ALLTOALL, kName, inputs, outputs, options.timeout}, [&](const Target& to) {
    const at::Tensor input = flattened(inputs);
    const at::Tensor output = at::empty({elementsOf(outputs)}, input.options());
    exchange(input, send, output, receive, wire, to.communicator, to.stream);
    unflatten(output, outputs);
  });
}

// HCCL has no gather: an exchange in which everybody sends to the root only.
ProcessGroupHCCL::Work ProcessGroupHCCL::gather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  constexpr const char* kName = "gather";
  const at::Tensor& input = onlyTensor(inputs, kName);
  if (input.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.gather(outputs, inputs, options); });
  }
  checkContiguous(input, kName);
  checkRank(options.rootRank, size_, kName, "root");
  const bool isRoot = rank_ == options.rootRank;
  Tensors parts;
  if (isRoot) {
    parts = onlyList(outputs, kName);
    checkLength(parts.size(), size_, kName, "output tensors, one for each rank");
    checkAlike(parts, kName);
    checkSameDtype(parts.front(), input, kName);
    for (const at::Tensor& part : parts)
      checkElements(part.numel(), input.numel(), kName, "an output");
  } else {
    TORCH_CHECK_VALUE(
        outputs.empty() || (outputs.size() == 1 && outputs.front().empty()), kName,
        ": only the root (rank ", options.rootRank, ") takes output tensors, this is rank ", rank_);
  }
  const WireType wire = wireType(input.scalar_type(), kName);
  const uint64_t count = wireCount(input, wire);
  std::vector<uint64_t> toRoot(size_, 0);
  toRoot[options.rootRank] = count;
  const Layout send(std::move(toRoot));
  const Layout receive(std::vector<uint64_t>(size_, isRoot ? count : 0));
  return launch(
      {OpType::GATHER, kName, {input}, parts, options.timeout, c10::str("root ", options.rootRank)},
      [&](const Target& to) {
        const at::Tensor all = isRoot ? at::empty({size_ * input.numel()}, input.options()) : input;
        exchange(input, send, all, receive, wire, to.communicator, to.stream);
        if (isRoot) unflatten(all, parts);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  constexpr const char* kName = "scatter";
  const at::Tensor& output = onlyTensor(outputs, kName);
  if (output.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.scatter(outputs, inputs, options); });
  }
  checkContiguous(output, kName);
  checkRank(options.rootRank, size_, kName, "root");
  const bool isRoot = rank_ == options.rootRank;
  Tensors parts;
  if (isRoot) {
    parts = onlyList(inputs, kName);
    checkLength(parts.size(), size_, kName, "input tensors, one for each rank");
    checkAlike(parts, kName);
    checkSameDtype(parts.front(), output, kName);
    for (const at::Tensor& part : parts)
      checkElements(part.numel(), output.numel(), kName, "an input");
  } else {
    TORCH_CHECK_VALUE(
        inputs.empty() || (inputs.size() == 1 && inputs.front().empty()), kName,
        ": only the root (rank ", options.rootRank, ") takes input tensors, this is rank ", rank_);
  }
  const WireType wire = wireType(output.scalar_type(), kName);
  return launch(
      {OpType::SCATTER,
       kName,
       parts,
       {output},
       options.timeout,
       c10::str("root ", options.rootRank)},
      [&](const Target& to) {
        const at::Tensor all = isRoot ? flattened(parts) : output;
        cann::HcclScatter.check(
            pointer(all), pointer(output), wireCount(output, wire), wire.type,
            static_cast<uint32_t>(options.rootRank), to.communicator, to.stream);
      });
}

// HCCL has no barrier: a reduction of one element, which the host waits for.
ProcessGroupHCCL::Work ProcessGroupHCCL::barrier(const c10d::BarrierOptions& options) {
  constexpr const char* kName = "barrier";
  const auto device = static_cast<c10::DeviceIndex>(deviceForBarrier(options));
  const at::Tensor token = at::empty(
      {1}, at::TensorOptions().device(c10::DeviceType::PrivateUse1, device).dtype(at::kInt));
  Call call{OpType::BARRIER, kName, {token}, {}, options.timeout};
  call.blocksHost = true;
  return launch(std::move(call), [&](const Target& to) {
    cann::HcclAllReduce.check(
        pointer(token), pointer(token), 1, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, to.communicator,
        to.stream);
  });
}

void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) {
  cpuBackend("monitored_barrier").monitoredBarrier(options, waitAllRanks);
}

}  // namespace torch_npu::distributed
