// Collectives that reduce, spread or join: each is its checks and one function for launch().
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <algorithm>

#include "cann/Hccl.h"
#include "distributed/ProcessGroupHCCL.h"
#include "distributed/TensorChecks.h"

namespace torch_npu::distributed {
namespace {

using c10d::OpType;

std::string rootText(int64_t root) { return "root " + std::to_string(root); }

std::string opText(const c10d::ReduceOp& op) { return std::string("ReduceOp.") + reduceOpName(op); }

// One row for each of `count` tensors with as many elements as `sample`.
at::Tensor rows(int64_t count, const at::Tensor& sample) {
  return at::empty({count, sample.numel()}, sample.options());
}

// What goes into the reduction: `input` itself, or `input` times the factor of PREMUL_SUM.
at::Tensor prepared(const at::Tensor& input, const Reduction& how) {
  if (!how.factor) return input;
  const auto& factor = *how.factor;
  if (!factor.tensor_factor.defined()) return at::mul(input, factor.double_factor);
  return at::mul(input, factor.tensor_factor.reshape({}).to(input.scalar_type()));
}

// The factor, where it is a tensor: prepared() reads it on the communication stream.
std::vector<at::Tensor> factorsOf(const Reduction& how) {
  if (!how.factor || !how.factor->tensor_factor.defined()) return {};
  return {how.factor->tensor_factor};
}

void finish(const at::Tensor& output, const Reduction& how, int size) {
  if (!how.average) return;
  const bool integral = at::isIntegralType(output.scalar_type(), /*includeBool=*/false);
  if (integral) {
    output.div_(size, "trunc");
  } else {
    output.div_(size);
  }
}

// Depends on the list alone, which is the same on all ranks.
bool haveOneSize(const std::vector<at::Tensor>& tensors) {
  return std::ranges::all_of(
      tensors, [&](const at::Tensor& tensor) { return tensor.numel() == tensors.front().numel(); });
}

}  // namespace

ProcessGroupHCCL::Work ProcessGroupHCCL::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* kName = "all_reduce";
  const at::Tensor& tensor = onlyTensor(tensors, kName);
  if (tensor.is_cpu())
    return onCpu(kName, [&](Backend& cpu) { return cpu.allreduce(tensors, options); });
  checkDense(tensor, kName);
  const Reduction how = reduction(options.reduceOp, tensor.scalar_type(), kName);
  return launch(
      {OpType::ALLREDUCE,
       kName,
       {tensor},
       {tensor},
       options.timeout,
       opText(options.reduceOp),
       factorsOf(how)},
      [&](const Target& to) {
        const at::Tensor input = prepared(tensor, how);
        cann::HcclAllReduce.check(
            pointer(input), pointer(tensor), wireCount(tensor, how.wire), how.wire.type, how.op,
            to.communicator, to.stream);
        finish(tensor, how, size_);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* kName = "all_reduce_coalesced";
  TORCH_CHECK_VALUE(!tensors.empty(), kName, ": expected at least one tensor, got none");
  if (tensors.front().is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.allreduce_coalesced(tensors, options); });
  }
  std::vector<Reduction> how;
  for (const at::Tensor& tensor : tensors) {
    checkDense(tensor, kName);
    how.push_back(reduction(options.reduceOp, tensor.scalar_type(), kName));
  }
  return launch(
      {OpType::ALLREDUCE_COALESCED, kName, tensors, tensors, options.timeout,
       opText(options.reduceOp), factorsOf(how.front())},
      [&](const Target& to) {
        for (size_t i = 0; i < tensors.size(); ++i) {
          const at::Tensor input = prepared(tensors[i], how[i]);
          cann::HcclAllReduce.check(
              pointer(input), pointer(tensors[i]), wireCount(tensors[i], how[i].wire),
              how[i].wire.type, how[i].op, to.communicator, to.stream);
          finish(tensors[i], how[i], size_);
        }
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr const char* kName = "broadcast";
  const at::Tensor& tensor = onlyTensor(tensors, kName);
  if (tensor.is_cpu())
    return onCpu(kName, [&](Backend& cpu) { return cpu.broadcast(tensors, options); });
  checkDense(tensor, kName);
  checkRank(options.rootRank, size_, kName, "root");
  const WireType wire = wireType(tensor.scalar_type(), kName);
  return launch(
      {OpType::BROADCAST, kName, {tensor}, {tensor}, options.timeout, rootText(options.rootRank)},
      [&](const Target& to) {
        cann::HcclBroadcast.check(
            pointer(tensor), wireCount(tensor, wire), wire.type,
            static_cast<uint32_t>(options.rootRank), to.communicator, to.stream);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::reduce(
    Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr const char* kName = "reduce";
  const at::Tensor& tensor = onlyTensor(tensors, kName);
  if (tensor.is_cpu())
    return onCpu(kName, [&](Backend& cpu) { return cpu.reduce(tensors, options); });
  checkDense(tensor, kName);
  checkRank(options.rootRank, size_, kName, "root");
  const Reduction how = reduction(options.reduceOp, tensor.scalar_type(), kName);
  return launch(
      {OpType::REDUCE,
       kName,
       {tensor},
       {tensor},
       options.timeout,
       opText(options.reduceOp) + ", " + rootText(options.rootRank),
       factorsOf(how)},
      [&](const Target& to) {
        const at::Tensor input = prepared(tensor, how);
        cann::HcclReduce.check(
            pointer(input), pointer(tensor), wireCount(tensor, how.wire), how.wire.type, how.op,
            static_cast<uint32_t>(options.rootRank), to.communicator, to.stream);
        if (rank_ == options.rootRank) finish(tensor, how, size_);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const at::Tensor& input = onlyTensor(inputs, kName);
  const Tensors& parts = onlyList(outputs, kName);
  if (input.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.allgather(outputs, inputs, options); });
  }
  checkContiguous(input, kName);
  checkLength(parts.size(), size_, kName, "output tensors, one for each rank");
  checkAlike(parts, kName);
  checkSameDtype(parts.front(), input, kName);
  checkElements(parts[rank_].numel(), input.numel(), kName, "this rank's own output");
  const WireType wire = wireType(input.scalar_type(), kName);

  if (haveOneSize(parts)) {
    return launch(
        {OpType::ALLGATHER, kName, {input}, parts, options.timeout}, [&](const Target& to) {
          const at::Tensor all = rows(size_, input);
          cann::HcclAllGather.check(
              pointer(input), pointer(all), wireCount(input, wire), wire.type, to.communicator,
              to.stream);
          for (int rank = 0; rank < size_; ++rank)
            asBytes(parts[rank]).copy_(asBytes(all)[rank].view_as(parts[rank]));
        });
  }
  // Parts of different sizes: each rank's part is broadcast by its owner.
  return launch(
      {OpType::ALLGATHER, kName, {input}, parts, options.timeout, "uneven"}, [&](const Target& to) {
        for (int rank = 0; rank < size_; ++rank) {
          const at::Tensor part = rank == rank_ ? input : parts[rank].contiguous();
          cann::HcclBroadcast.check(
              pointer(part), wireCount(part, wire), wire.type, static_cast<uint32_t>(rank),
              to.communicator, to.stream);
          if (!part.is_same(parts[rank]))
            asBytes(parts[rank]).copy_(asBytes(part).view_as(parts[rank]));
        }
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor";
  if (input.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu._allgather_base(output, input, options); });
  }
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupHCCL::Work ProcessGroupHCCL::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor";
  TORCH_CHECK_VALUE(!inputs.empty(), kName, ": expected at least one tensor, got none");
  checkLength(outputs.size(), inputs.size(), kName, "outputs, one for each input");
  if (inputs.front().is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) {
      return cpu.allgather_into_tensor_coalesced(outputs, inputs, options);
    });
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    checkContiguous(inputs[i], kName);
    checkContiguous(outputs[i], kName);
    checkSameDtype(outputs[i], inputs[i], kName);
    checkElements(outputs[i].numel(), inputs[i].numel() * size_, kName, "the output");
    wireType(inputs[i].scalar_type(), kName);
  }
  return launch(
      {OpType::_ALLGATHER_BASE, kName, inputs, outputs, options.timeout}, [&](const Target& to) {
        for (size_t i = 0; i < inputs.size(); ++i) {
          const WireType wire = wireType(inputs[i].scalar_type(), kName);
          cann::HcclAllGather.check(
              pointer(inputs[i]), pointer(outputs[i]), wireCount(inputs[i], wire), wire.type,
              to.communicator, to.stream);
        }
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor& output = onlyTensor(outputs, kName);
  const Tensors& parts = onlyList(inputs, kName);
  if (output.is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) { return cpu.reduce_scatter(outputs, inputs, options); });
  }
  checkContiguous(output, kName);
  checkLength(parts.size(), size_, kName, "input tensors, one for each rank");
  checkAlike(parts, kName);
  checkSameDtype(parts.front(), output, kName);
  checkElements(parts[rank_].numel(), output.numel(), kName, "this rank's own input");
  const Reduction how = reduction(options.reduceOp, output.scalar_type(), kName);

  if (haveOneSize(parts)) {
    return launch(
        {OpType::REDUCE_SCATTER,
         kName,
         parts,
         {output},
         options.timeout,
         opText(options.reduceOp),
         factorsOf(how)},
        [&](const Target& to) {
          const at::Tensor all = rows(size_, output);
          for (int rank = 0; rank < size_; ++rank)
            all[rank].view_as(parts[rank]).copy_(parts[rank]);
          const at::Tensor input = prepared(all, how);
          cann::HcclReduceScatter.check(
              pointer(input), pointer(output), wireCount(output, how.wire), how.wire.type, how.op,
              to.communicator, to.stream);
          finish(output, how, size_);
        });
  }
  // Parts of different sizes: each is reduced to the rank that it belongs to.
  return launch(
      {OpType::REDUCE_SCATTER,
       kName,
       parts,
       {output},
       options.timeout,
       opText(options.reduceOp) + ", uneven",
       factorsOf(how)},
      [&](const Target& to) {
        for (int rank = 0; rank < size_; ++rank) {
          const at::Tensor input = prepared(parts[rank].contiguous(), how);
          // Only the owner's buffer is written.
          const at::Tensor& target = rank == rank_ ? output : input;
          cann::HcclReduce.check(
              pointer(input), pointer(target), wireCount(input, how.wire), how.wire.type, how.op,
              static_cast<uint32_t>(rank), to.communicator, to.stream);
        }
        finish(output, how, size_);
      });
}

ProcessGroupHCCL::Work ProcessGroupHCCL::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor";
  if (input.is_cpu()) {
    return onCpu(
        kName, [&](Backend& cpu) { return cpu._reduce_scatter_base(output, input, options); });
  }
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupHCCL::Work ProcessGroupHCCL::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor";
  TORCH_CHECK_VALUE(!inputs.empty(), kName, ": expected at least one tensor, got none");
  checkLength(outputs.size(), inputs.size(), kName, "outputs, one for each input");
  if (inputs.front().is_cpu()) {
    return onCpu(kName, [&](Backend& cpu) {
      return cpu.reduce_scatter_tensor_coalesced(outputs, inputs, options);
    });
  }
  std::vector<Reduction> how;
  for (size_t i = 0; i < inputs.size(); ++i) {
    checkContiguous(inputs[i], kName);
    checkContiguous(outputs[i], kName);
    checkSameDtype(outputs[i], inputs[i], kName);
    checkElements(inputs[i].numel(), outputs[i].numel() * size_, kName, "the input");
    how.push_back(reduction(options.reduceOp, outputs[i].scalar_type(), kName));
  }
  return launch(
      {OpType::_REDUCE_SCATTER_BASE, kName, inputs, outputs, options.timeout,
       opText(options.reduceOp), factorsOf(how.front())},
      [&](const Target& to) {
        for (size_t i = 0; i < inputs.size(); ++i) {
          const at::Tensor input = prepared(inputs[i], how[i]);
          cann::HcclReduceScatter.check(
              pointer(input), pointer(outputs[i]), wireCount(outputs[i], how[i].wire),
              how[i].wire.type, how[i].op, to.communicator, to.stream);
          finish(outputs[i], how[i], size_);
        }
      });
}

}  // namespace torch_npu::distributed
