#include "distributed/Operation.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <algorithm>

#include "cann/Env.h"
#include "distributed/HcclTypes.h"
#include "runtime/Device.h"

namespace torch_npu::distributed {
namespace {

std::string shapeText(c10::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

GroupState::GroupState(Membership membership)
    : members(std::move(membership)),
      errorHandling(
          static_cast<ErrorHandling>(cann::env::integer("TORCH_HCCL_ASYNC_ERROR_HANDLING", 0, 3))) {
}

std::string GroupState::describe() const {
  std::lock_guard lock(mutex_);
  std::string text = "group '" + name_ + "'";
  if (!description_.empty() && description_ != "undefined") text += " (" + description_ + ")";
  return c10::str(text, ", ", members.describe(members.rank), " of ", members.size);
}

void GroupState::setName(std::string name) {
  std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

void GroupState::setDescription(std::string description) {
  std::lock_guard lock(mutex_);
  description_ = std::move(description);
}

std::string GroupState::name() const {
  std::lock_guard lock(mutex_);
  return name_;
}

std::shared_ptr<Communicator> GroupState::find(const std::string& key) const {
  std::lock_guard lock(mutex_);
  for (const auto& [existing, communicator] : communicators_) {
    if (existing == key) return communicator;
  }
  return nullptr;
}

void GroupState::add(const std::string& key, std::shared_ptr<Communicator> communicator) {
  std::lock_guard lock(mutex_);
  communicators_.emplace_back(key, std::move(communicator));
}

std::vector<std::shared_ptr<Communicator>> GroupState::communicators() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [key, communicator] : communicators_) all.push_back(communicator);
  return all;
}

bool GroupState::fail(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (hasFailed()) return false;
  failure_ = text;
  failed_.store(true, std::memory_order_release);
  return true;
}

void GroupState::throwIfFailed() const {
  if (!hasFailed()) return;
  delivered_.store(true, std::memory_order_release);
  C10_THROW_ERROR(DistBackendError, failure());
}

std::string GroupState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void GroupState::abortCommunicators() noexcept {
  for (const auto& communicator : communicators()) communicator->abort();
}

void OperationFacts::describeTensors(at::TensorList in, at::TensorList out) {
  inputs = in.size();
  outputs = out.size();
  for (const at::Tensor& tensor : in) inputElements += tensor.numel();
  for (const at::Tensor& tensor : out) outputElements += tensor.numel();
  if (in.empty() && out.empty()) return;
  const at::Tensor& first = in.empty() ? out.front() : in.front();
  dtype = first.scalar_type();
  shape.assign(first.sizes().begin(), first.sizes().end());
}

std::string OperationFacts::text() const {
  std::string text = c10::str(name, ", sequence number ", sequence);
  if (dtype != at::ScalarType::Undefined) {
    text += ", " + dtypeName(dtype) + " " + shapeText(shape);
    if (inputs > 1) text += c10::str(" and ", inputs - 1, " more tensors");
    if (outputElements != inputElements) {
      text += c10::str(" (", inputElements, " elements in, ", outputElements, " out)");
    }
  }
  if (!detail.empty()) text += ", " + detail;
  for (const Message& message : messages) {
    text += c10::str(
        ", ", message.sends ? "send to rank " : "recv from rank ", message.peer, " (",
        dtypeName(message.dtype), " x ", message.elements, ")");
  }
  return text;
}

Operation::Operation(
    std::shared_ptr<GroupState> group, std::shared_ptr<Communicator> communicator,
    OperationFacts facts, std::chrono::milliseconds timeout, bool timing)
    : group(std::move(group)),
      communicator(std::move(communicator)),
      facts(std::move(facts)),
      timeout(timeout),
      started_(timing),
      done_(timing),
      timing_(timing) {}

void Operation::begin(const NPUStream& callersStream) {
  deadline_.store((Clock::now() + timeout).time_since_epoch().count(), std::memory_order_relaxed);
  NPUEvent ready;
  ready.record(callersStream);
  ready.block(stream());
  if (timing_) started_.record(stream());
}

void Operation::end() { done_.record(stream()); }

Operation::Status Operation::poll() {
  if (finished_.load(std::memory_order_acquire)) return Status::Done;
  if (group->hasFailed()) return Status::Failed;
  if (!isLaunched()) return Status::Running;  // of a batch
  if (isFinalized()) return Status::Done;
  try {
    DeviceScope scope(device());
    if (!done_.query()) return Status::Running;
  } catch (const std::exception& error) {
    failAsToldBy(error);
    return Status::Failed;
  }
  // Streams stop at a failed task (runtime/Stream.cpp), so an event that was reached stands for
  // success.
  finished_.store(true, std::memory_order_release);
  return Status::Done;
}

bool Operation::isExpired() const noexcept {
  return Clock::now().time_since_epoch().count() > deadline_.load(std::memory_order_relaxed);
}

void Operation::shortenDeadline(std::chrono::milliseconds fromNow) noexcept {
  const Clock::rep wanted = (Clock::now() + fromNow).time_since_epoch().count();
  Clock::rep present = deadline_.load(std::memory_order_relaxed);
  while (wanted < present &&
         !deadline_.compare_exchange_weak(present, wanted, std::memory_order_relaxed)) {
  }
}

void Operation::waitOnHost() {
  if (!finished_.load(std::memory_order_acquire) && !group->hasFailed()) {
    try {
      DeviceScope scope(device());
      done_.synchronize();
    } catch (const std::exception& error) {
      failAsToldBy(error);
    }
    poll();
  }
  throwIfFailed();
}

float Operation::duration() const {
  TORCH_CHECK_VALUE(
      timing_,
      "the duration of a collective is only known when timing is on: call "
      "group._enable_collectives_timing() before it");
  DeviceScope scope(device());
  done_.synchronize();
  return started_.elapsedTime(done_);
}

std::string Operation::failureText(const std::string& what) const {
  return c10::str(
      facts.text(), " of ", group->describe(), ", on npu:", device(), ", timeout ",
      seconds(timeout), " s: ", what);
}

// HCCL knows more of a failed collective than the stream that it failed on.
void Operation::failAsToldBy(const std::exception& error) {
  const auto told = communicator->asyncError();
  fail(told ? *told : messageOf(error));
}

void Operation::fail(const std::string& what) {
  if (isFinalized()) return;
  communicator->poisonStream();
  const std::string text = failureText(what);
  if (group->fail(text)) LOG(ERROR) << text;
}

}  // namespace torch_npu::distributed
