#include "distributed/WorkHCCL.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include "cann/Env.h"
#include "runtime/CachingAllocator.h"
#include "runtime/Device.h"

namespace torch_npu::distributed {

void keepMemory(at::TensorList tensors, const NPUStream& stream) noexcept {
  try {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.has_storage()) recordStream(tensor.storage().data_ptr(), stream);
    }
  } catch (const std::exception& error) {
    LOG(WARNING) << "the memory of tensors in flight could not be held back: " << messageOf(error);
  }
}

WorkHCCL::WorkHCCL(
    std::shared_ptr<Operation> operation, const NPUStream& callersStream,
    std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs, bool blocksHost)
    : Work(operation->group->members.rank, operation->facts.type),
      operation_(std::move(operation)),
      callersStream_(callersStream),
      outputs_(std::move(outputs)),
      blocksHost_(blocksHost),
      inFlight_(std::move(inputs)) {
  inFlight_.insert(inFlight_.end(), outputs_.begin(), outputs_.end());
}

WorkHCCL::~WorkHCCL() { letTensorsGo(/*orderedBehind=*/false); }

bool WorkHCCL::isCompleted() { return operation_->poll() != Operation::Status::Running; }

bool WorkHCCL::isSuccess() const { return operation_->poll() == Operation::Status::Done; }

std::exception_ptr WorkHCCL::exception() const {
  if (operation_->poll() != Operation::Status::Failed) return nullptr;
  try {
    operation_->group->throwIfFailed();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  synchronize();
  static const bool alwaysBlocks = cann::env::flag("TORCH_HCCL_BLOCKING_WAIT");
  if (timeout > kNoTimeout) operation_->shortenDeadline(timeout);
  if (blocksHost_ || alwaysBlocks || timeout > kNoTimeout) operation_->waitOnHost();
  return true;
}

void WorkHCCL::synchronize() {
  TORCH_CHECK_VALUE(
      operation_->isLaunched(), operation_->facts.name,
      ": waiting for an operation of a batch that is not launched yet; leave the coalescing block "
      "first");
  operation_->throwIfFailed();
  const NPUStream current = getCurrentStream(operation_->device());
  operation_->block(current);
  letTensorsGo(/*orderedBehind=*/current == callersStream_);
}

void WorkHCCL::abort() {
  operation_->fail("aborted by Work.abort()");
  operation_->group->abortCommunicators();
}

c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  std::lock_guard lock(tensorsMutex_);
  if (future_) return future_;
  const c10::Device device(
      c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(operation_->device()));
  future_ = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device});
  // The future records its events on the current stream.
  StreamGuard onCommunicationStream(operation_->stream());
  future_->markCompleted(c10::IValue(outputs_));
  return future_;
}

void WorkHCCL::letTensorsGo(bool orderedBehind) noexcept {
  std::vector<at::Tensor> tensors;
  {
    std::lock_guard lock(tensorsMutex_);
    tensors.swap(inFlight_);
  }
  if (orderedBehind || tensors.empty() || isFinalized()) return;
  try {
    if (operation_->poll() == Operation::Status::Done) return;
  } catch (const std::exception& error) {
    LOG(WARNING) << "state of " << operation_->facts.name << ": " << messageOf(error);
  }
  keepMemory(tensors, operation_->stream());
}

}  // namespace torch_npu::distributed
