// Send, receive, and blocks of operations that are launched together.
#include <c10/util/Exception.h>

#include "cann/Hccl.h"
#include "distributed/ProcessGroupHCCL.h"
#include "distributed/TensorChecks.h"

namespace torch_npu::distributed {
namespace {

using c10d::OpType;

// Several works as one.
class JoinedWork : public c10d::Work {
 public:
  JoinedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> parts)
      : Work(rank, OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override {
    for (const auto& part : parts_) {
      if (!part->isCompleted()) return false;
    }
    return true;
  }
  bool isSuccess() const override {
    for (const auto& part : parts_) {
      if (!part->isSuccess()) return false;
    }
    return true;
  }
  std::exception_ptr exception() const override {
    for (const auto& part : parts_) {
      if (auto error = part->exception()) return error;
    }
    return nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& part : parts_) part->wait(timeout);
    return true;
  }
  void synchronize() override {
    for (const auto& part : parts_) part->synchronize();
  }
  void blockCurrentStream() override {
    for (const auto& part : parts_) part->blockCurrentStream();
  }
  void abort() override {
    for (const auto& part : parts_) part->abort();
  }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const auto& part : parts_) {
      const auto tensors = part->result();
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& part : parts_) futures.push_back(part->getFuture());
    return c10::collectAll(futures);
  }

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

}  // namespace

ProcessGroupHCCL::Work ProcessGroupHCCL::onCpu(
    const char* operation, c10::function_ref<Work(c10d::Backend&)> run) {
  Work work = run(cpuBackend(operation));
  if (batch_ && work) batch_->works.push_back(work);
  return work;
}

ProcessGroupHCCL::Work ProcessGroupHCCL::launch(Call call, Enqueue enqueue) {
  const at::Tensor& first = call.inputs.empty() ? call.outputs.front() : call.inputs.front();
  OperationFacts known = facts(call, sequence_);
  const auto target = communicator(first.get_device(), known);
  Work work = launchOn(target, std::move(call), std::move(known), enqueue);
  if (batch_) batch_->works.push_back(work);
  return work;
}

ProcessGroupHCCL::Work ProcessGroupHCCL::send(Tensors& tensors, int destination, int tag) {
  const at::Tensor& tensor = onlyTensor(tensors, "send");
  if (tensor.is_cpu()) {
    return onCpu("send", [&](Backend& cpu) { return cpu.send(tensors, destination, tag); });
  }
  return pointToPoint(HCCL_SEND, tensors, destination);
}

ProcessGroupHCCL::Work ProcessGroupHCCL::recv(Tensors& tensors, int source, int tag) {
  const at::Tensor& tensor = onlyTensor(tensors, "recv");
  if (tensor.is_cpu())
    return onCpu("recv", [&](Backend& cpu) { return cpu.recv(tensors, source, tag); });
  return pointToPoint(HCCL_RECV, tensors, source);
}

ProcessGroupHCCL::Work ProcessGroupHCCL::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = onlyTensor(tensors, "recv");
  if (tensor.is_cpu())
    return onCpu("recv", [&](Backend& cpu) { return cpu.recvAnysource(tensors, tag); });
  C10_THROW_ERROR(
      NotImplementedError,
      "recv without a source: HCCL receives from a known rank only; give src=, or send the tensor "
      "through the CPU");
}

// Note [Send and receive]
// A pair of ranks has a communicator and a stream of its own, so that traffic with one rank does
// not wait for traffic with another, nor for collectives. P2P_HCCL_BUFFSIZE=0 uses the group's
// communicator instead. A batch goes through the group's communicator as one HcclBatchSendRecv.
// Messages of a pair match in order; tags are not used, as in NCCL.
ProcessGroupHCCL::Work ProcessGroupHCCL::pointToPoint(
    HcclSendRecvType direction, Tensors& tensors, int peer) {
  const bool sends = direction == HCCL_SEND;
  const char* name = sends ? "send" : "recv";
  const at::Tensor& tensor = tensors.front();
  checkDense(tensor, name);
  checkRank(peer, size_, name, sends ? "destination" : "source");
  TORCH_CHECK_VALUE(peer != rank_, name, ": rank ", rank_, " cannot exchange messages with itself");
  const WireType wire = wireType(tensor.scalar_type(), name);
  Call call{
      sends ? OpType::SEND : OpType::RECV,
      name,
      sends ? Tensors{tensor} : Tensors{},
      sends ? Tensors{} : Tensors{tensor},
      c10d::kUnsetTimeout,
      (sends ? "to " : "from ") + state_->members.describe(peer)};
  const int device = tensor.get_device();

  if (batch_) {
    if (!batch_->operation) {
      Call all{OpType::COALESCED, "batch_isend_irecv", {}, {}, c10d::kUnsetTimeout};
      OperationFacts known = facts(all, pointToPointSequence_);
      auto group = communicator(device, known);
      batch_->operation = std::make_shared<Operation>(
          state_, std::move(group), std::move(known), timeoutOf(c10d::kUnsetTimeout), timing_);
    }
    TORCH_CHECK_VALUE(
        batch_->operation->device() == device, name,
        ": all sends and receives of a batch must use one device, got npu:",
        batch_->operation->device(), " and npu:", device);
    batch_->items.push_back(
        {direction, pointer(tensor), wireCount(tensor, wire), wire.type,
         static_cast<uint32_t>(peer)});
    batch_->operation->facts.messages.push_back(
        {sends, peer, tensor.scalar_type(), tensor.numel()});
    (sends ? batch_->inputs : batch_->outputs).push_back(tensor);
    return c10::make_intrusive<WorkHCCL>(
        batch_->operation, getCurrentStream(device), Tensors{}, Tensors{}, /*blocksHost=*/false);
  }

  OperationFacts known = facts(call, pointToPointSequence_);
  const auto [pair, peerInPair] = pairCommunicator(device, peer, known);
  const auto remote = static_cast<uint32_t>(peerInPair);
  return launchOn(pair, std::move(call), std::move(known), [&](const Target& to) {
    const auto count = wireCount(tensor, wire);
    if (sends) {
      cann::HcclSend.check(pointer(tensor), count, wire.type, remote, to.communicator, to.stream);
    } else {
      cann::HcclRecv.check(pointer(tensor), count, wire.type, remote, to.communicator, to.stream);
    }
  });
}

void ProcessGroupHCCL::startCoalescing() {
  if (batch_) {
    TORCH_WARN(
        "an earlier block of coalesced operations was never ended (an exception left it?); its ",
        batch_->items.size(), " sends and receives are dropped");
  }
  batch_ = std::make_unique<Batch>();
}

ProcessGroupHCCL::Work ProcessGroupHCCL::endCoalescing() {
  TORCH_CHECK_VALUE(batch_, "end of a block of coalesced operations that was never started");
  const std::unique_ptr<Batch> batch = std::move(batch_);
  if (batch->operation) {
    const auto& operation = batch->operation;
    const NPUStream callers = getCurrentStream(operation->device());
    Tensors used = batch->inputs;
    used.insert(used.end(), batch->outputs.begin(), batch->outputs.end());
    run(operation, callers, used, [&](const Target& to) {
      cann::HcclBatchSendRecv.check(
          batch->items.data(), static_cast<uint32_t>(batch->items.size()), to.communicator,
          to.stream);
    });
    batch->works.push_back(
        c10::make_intrusive<WorkHCCL>(
            operation, callers, std::move(batch->inputs), std::move(batch->outputs),
            /*blocksHost=*/false));
  }
  if (batch->works.size() == 1) return batch->works.front();
  return c10::make_intrusive<JoinedWork>(rank_, std::move(batch->works));
}

}  // namespace torch_npu::distributed
