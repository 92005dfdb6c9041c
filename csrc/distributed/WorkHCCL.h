// What a collective hands back: a handle to wait by.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <mutex>
#include <vector>

#include "distributed/Operation.h"

namespace torch_npu::distributed {

// The allocator keeps the tensors' memory until the stream has got past all that was enqueued so
// far. Never throws: what goes wrong is logged.
void keepMemory(at::TensorList tensors, const NPUStream& stream) noexcept;

// Note [Tensors in flight]
// The work holds every tensor that the communication stream still reads or writes. wait() on the
// stream that launched the operation lets them go at once: whatever reuses their memory is ordered
// behind the communication by that stream. If wait() happens on another stream, or the work is
// dropped without wait(), the allocator is told instead (recordStream).
class WorkHCCL : public c10d::Work {
 public:
  WorkHCCL(
      std::shared_ptr<Operation> operation, const NPUStream& callersStream,
      std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs, bool blocksHost);
  ~WorkHCCL() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  // Orders the current stream behind the operation. The host waits too for barriers, with
  // TORCH_HCCL_BLOCKING_WAIT=1, and if a timeout is given. Throws the group's failure.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  void abort() override;

  std::vector<at::Tensor> result() override { return outputs_; }
  // Completed as soon as the operation is launched, as for every device backend: who reads its
  // value is ordered behind the operation on the stream.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override { return operation_->duration(); }
  uint64_t getSequencenumber() const override { return operation_->facts.sequence; }

 private:
  void letTensorsGo(bool orderedBehind) noexcept;

  const std::shared_ptr<Operation> operation_;
  const NPUStream callersStream_;
  const std::vector<at::Tensor> outputs_;
  const bool blocksHost_;
  std::mutex tensorsMutex_;  // guards inFlight_ and future_; no CANN call that waits while held
  std::vector<at::Tensor> inFlight_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace torch_npu::distributed
