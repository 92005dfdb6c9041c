// The process group over HCCL: PyTorch's distributed backend "hccl" for npu tensors.
#pragma once

#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cann/abi/hccl.h"
#include "distributed/Communicator.h"
#include "distributed/HcclTypes.h"
#include "distributed/Operation.h"
#include "distributed/WorkHCCL.h"

namespace torch_npu::distributed {

// Note [Launch path]
// A collective is its checks and one function that enqueues it. launch() does the rest, the same
// for all: find or build the communicator, let its stream wait for the caller's, run the function
// with that stream current (so that at:: operations and temporaries inside belong to it), record
// the end, hand the operation to the watchdog and the tensors to the work.
class ProcessGroupHCCL : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    Options() : c10d::Backend::Options("hccl") {}
    bool highPriorityStream = false;
    uint32_t hcclBufferSize = 0;  // MiB; 0: HCCL_BUFFSIZE
  };
  // Makes the backend for CPU tensors out of store, rank, size and timeout, at the first such
  // tensor.
  using CpuBackendFactory = std::function<c10::intrusive_ptr<c10d::Backend>(
      c10::intrusive_ptr<c10d::Store>, int, int, std::chrono::milliseconds)>;

  ProcessGroupHCCL(
      c10::intrusive_ptr<c10d::Store> store, int rank, int size,
      c10::intrusive_ptr<Options> options, CpuBackendFactory cpuBackend = {});

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  const c10::intrusive_ptr<Options>& options() const { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& uid) override;
  void enableCollectivesTiming() override { timing_ = true; }
  void setSequenceNumberForGroup() override {}  // every rank counts from 0
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void eagerConnectSingleDevice(at::Device device) override;
  // A group of the given ranks of this one; null on the others. Needs no call by those.
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  // Waits on the host for everything launched so far; throws the group's failure.
  void waitForPendingWorks() override;
  void abort() override;
  // Waits, then ends the communicators. The group cannot be used afterwards.
  void shutdown() override;
  // HCCL's name of the communicator on a device, "" before its first use.
  std::string communicatorName(int device) const;

  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  // Collectives.cpp
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(
      std::vector<Tensors>& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  Work _allgather_base(
      at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work reduce_scatter(
      Tensors& outputs, std::vector<Tensors>& inputs,
      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  // Exchanges.cpp
  Work alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& outputSplits,
      std::vector<int64_t>& inputSplits, const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work gather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(
      Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) override;
  // PointToPoint.cpp
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  Work endCoalescing() override;

 private:
  struct Call {
    c10d::OpType type;
    const char* name;
    Tensors inputs;
    Tensors outputs;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    std::string detail = {};  // for messages: "root 0", "SUM"
    Tensors factors = {};     // read too: what PREMUL_SUM multiplies by
    bool blocksHost = false;
  };
  struct Target {
    HcclComm communicator;
    aclrtStream stream;
  };
  using Enqueue = c10::function_ref<void(const Target&)>;

  Work launch(Call call, Enqueue enqueue);
  Work launchOn(
      const std::shared_ptr<Communicator>& communicator, Call call, OperationFacts facts,
      Enqueue enqueue);
  // begin, `enqueue` on the communication stream, end; then the watchdog has it. `tensors` are all
  // that `enqueue` lets the stream use.
  void run(
      const std::shared_ptr<Operation>& operation, const NPUStream& callersStream,
      const Tensors& tensors, Enqueue enqueue);
  OperationFacts facts(const Call& call, std::atomic<uint64_t>& sequence) const;
  std::chrono::milliseconds timeoutOf(std::chrono::milliseconds wanted) const;
  // Built at first use; `operation` is for the message if that fails.
  std::shared_ptr<Communicator> communicator(int device, const OperationFacts& operation);
  // The communicator for messages with a peer, and the peer's rank in it.
  std::pair<std::shared_ptr<Communicator>, int> pairCommunicator(
      int device, int peer, const OperationFacts& operation);
  std::shared_ptr<Communicator> connect(
      const std::string& key, const Membership& members, const CommunicatorConfig& config,
      int device, const OperationFacts& operation);
  void checkRankInGroup(int rank) const;
  int deviceForBarrier(const c10d::BarrierOptions& options) const;
  c10d::Backend& cpuBackend(const char* operation);
  // Runs on the inner backend; inside a coalescing block it is remembered for the block's work.
  Work onCpu(const char* operation, c10::function_ref<Work(c10d::Backend&)> run);
  Work pointToPoint(HcclSendRecvType direction, Tensors& tensors, int peer);

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<GroupState> state_;
  std::mutex connectMutex_;  // guards the counts; held while ranks meet: one communicator at a time
  // Communicators so far of the whole group, and of each pair of its ranks; the same on all ranks.
  int connected_ = 0;
  std::map<std::vector<int>, int> pairsConnected_;
  const CpuBackendFactory cpuBackendFactory_;
  std::mutex cpuMakingMutex_;  // held while the backend for CPU tensors is made
  std::mutex cpuMutex_;        // guards what follows; abort() takes it, so nothing waits while held
  c10::intrusive_ptr<c10d::Backend> cpuBackend_;
  bool cpuAborted_ = false;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<uint64_t> pointToPointSequence_{0};
  std::atomic<bool> timing_{false};
  std::atomic<int> lastDevice_{-1};  // of the last operation: where barriers run
  std::atomic<bool> shutDown_{false};

  mutable std::mutex lastMutex_;  // guards last_
  // By communicator, the operation launched last: the end of all that went before.
  std::vector<std::shared_ptr<Operation>> last_;

  // What a coalescing block has gathered. Collectives and CPU operations in it are launched at once
  // and their works remembered; sends and receives wait for its end, because only then HCCL can
  // order them so that none waits for another.
  struct Batch {
    std::vector<Work> works;
    std::vector<HcclSendRecvItem> items;
    Tensors inputs;
    Tensors outputs;
    std::shared_ptr<Operation> operation;  // of the items
  };
  // A block belongs to the one thread that opened it, as in every backend of c10d.
  std::unique_ptr<Batch> batch_;
};

}  // namespace torch_npu::distributed
