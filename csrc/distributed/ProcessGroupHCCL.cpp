#include "distributed/ProcessGroupHCCL.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>

#include "cann/Env.h"
#include "distributed/Watchdog.h"
#include "runtime/Device.h"

namespace torch_npu::distributed {
namespace {

std::string deviceKey(int device) { return "npu:" + std::to_string(device); }

Membership membershipOf(int rank, int size, const std::vector<uint64_t>& globalRanks) {
  TORCH_CHECK_VALUE(
      size >= 1 && rank >= 0 && rank < size, "ProcessGroupHCCL: rank ", rank, " of ", size,
      "; expected 0 <= rank < size");
  TORCH_CHECK_VALUE(
      globalRanks.empty() || globalRanks.size() == static_cast<size_t>(size),
      "ProcessGroupHCCL: global_ranks_in_group has ", globalRanks.size(), " entries, expected ",
      size);
  return {rank, size, globalRanks, {}};
}

}  // namespace

ProcessGroupHCCL::ProcessGroupHCCL(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options,
    CpuBackendFactory cpuBackend)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(options ? std::move(options) : c10::make_intrusive<Options>()),
      state_(
          std::make_shared<GroupState>(membershipOf(rank, size, options_->global_ranks_in_group))),
      cpuBackendFactory_(std::move(cpuBackend)) {
  state_->setName(options_->group_name);
  setGroupUid(options_->group_name);
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupHCCL::getBackendOptions() {
  // A copy: c10d writes the name and timeout of a new group into what it gets.
  return c10::make_intrusive<Options>(*options_);
}

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
}

void ProcessGroupHCCL::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  state_->setName(uid);
}

c10d::ErrorType ProcessGroupHCCL::getError() {
  return state_->hasFailed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) {
  OperationFacts known;
  known.name = "init_process_group(device_id=...)";
  communicator(device.index(), known);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto mine = std::ranges::find(ranks, rank_);
  if (mine == ranks.end()) return nullptr;
  const auto own = c10::dynamic_intrusive_pointer_cast<Options>(options);
  TORCH_CHECK_TYPE(
      own || !options, "split_group: expected ProcessGroupHCCL.Options, got options of backend '",
      options ? options->backend : "", "'");
  auto settings = c10::make_intrusive<Options>(own ? *own : *options_);
  settings->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    checkRankInGroup(rank);
    settings->global_ranks_in_group.push_back(
        options_->global_ranks_in_group.empty() ? static_cast<uint64_t>(rank)
                                                : options_->global_ranks_in_group[rank]);
  }
  return c10::make_intrusive<ProcessGroupHCCL>(
      store, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()),
      std::move(settings), cpuBackendFactory_);
}

void ProcessGroupHCCL::checkRankInGroup(int rank) const {
  TORCH_CHECK_VALUE(
      rank >= 0 && rank < size_, "split_group: rank ", rank, " is not in the parent group of ",
      size_);
}

OperationFacts ProcessGroupHCCL::facts(const Call& call, std::atomic<uint64_t>& sequence) const {
  OperationFacts known;
  known.type = call.type;
  known.name = call.name;
  known.sequence = ++sequence;
  known.detail = call.detail;
  known.describeTensors(call.inputs, call.outputs);
  return known;
}

std::chrono::milliseconds ProcessGroupHCCL::timeoutOf(std::chrono::milliseconds wanted) const {
  return wanted > kNoTimeout ? wanted : options_->timeout;
}

ProcessGroupHCCL::Work ProcessGroupHCCL::launchOn(
    const std::shared_ptr<Communicator>& communicator, Call call, OperationFacts facts,
    Enqueue enqueue) {
  const NPUStream callers = getCurrentStream(communicator->device());
  auto operation = std::make_shared<Operation>(
      state_, communicator, std::move(facts), timeoutOf(call.timeout), timing_);
  Tensors read = std::move(call.inputs);
  read.insert(read.end(), call.factors.begin(), call.factors.end());
  Tensors used = read;
  used.insert(used.end(), call.outputs.begin(), call.outputs.end());
  run(operation, callers, used, enqueue);
  return c10::make_intrusive<WorkHCCL>(
      std::move(operation), callers, std::move(read), std::move(call.outputs), call.blocksHost);
}

void ProcessGroupHCCL::run(
    const std::shared_ptr<Operation>& operation, const NPUStream& callersStream,
    const Tensors& tensors, Enqueue enqueue) {
  state_->throwIfFailed();
  // at:: operations of a collective are not the user's: no gradient, no version counter.
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  DeviceScope scope(operation->device());
  const Communicator::Lease lease(*operation->communicator);
  operation->begin(callersStream);
  try {
    {
      StreamGuard onCommunicationStream(operation->stream());
      enqueue({lease.handle(), operation->stream().handle()});
    }
    operation->end();
  } catch (const c10::DistBackendError& error) {
    // There will be no work to hold the tensors, but a part may be enqueued.
    keepMemory(tensors, operation->stream());
    C10_THROW_ERROR(DistBackendError, operation->failureText(error.what_without_backtrace()));
  } catch (...) {
    keepMemory(tensors, operation->stream());
    throw;
  }
  lastDevice_ = operation->device();
  {
    std::lock_guard lock(lastMutex_);
    const auto same = std::ranges::find_if(
        last_, [&](const auto& other) { return other->communicator == operation->communicator; });
    if (same != last_.end()) {
      *same = operation;
    } else {
      last_.push_back(operation);
    }
  }
  Watchdog::instance().watch(operation);
}

std::shared_ptr<Communicator> ProcessGroupHCCL::communicator(
    int device, const OperationFacts& operation) {
  const std::string key = deviceKey(device);
  if (auto existing = state_->find(key)) return existing;
  CommunicatorConfig config;
  config.bufferSize = options_->hcclBufferSize;
  if (!getGroupUid().empty()) config.name = "group_name_" + getGroupUid();
  return connect(key, state_->members, config, device, operation);
}

std::pair<std::shared_ptr<Communicator>, int> ProcessGroupHCCL::pairCommunicator(
    int device, int peer, const OperationFacts& operation) {
  CommunicatorConfig config;
  config.bufferSize = static_cast<uint32_t>(cann::env::integer("P2P_HCCL_BUFFSIZE", 0, 1 << 20));
  if (config.bufferSize == 0) return {communicator(device, operation), peer};
  const int low = std::min(rank_, peer);
  const int high = std::max(rank_, peer);
  const int peerInPair = peer > rank_ ? 1 : 0;
  const std::string key = c10::str(deviceKey(device), "/pair/", low, "-", high);
  if (auto existing = state_->find(key)) return {std::move(existing), peerInPair};
  Membership pair{rank_ == low ? 0 : 1, 2, {}, {low, high}};
  const auto& global = state_->members.globalRanks;
  if (!global.empty()) pair.globalRanks = {global[low], global[high]};
  return {connect(key, pair, config, device, operation), peerInPair};
}

std::shared_ptr<Communicator> ProcessGroupHCCL::connect(
    const std::string& key, const Membership& members, const CommunicatorConfig& config, int device,
    const OperationFacts& operation) {
  std::lock_guard lock(connectMutex_);
  if (auto existing = state_->find(key)) return existing;
  state_->throwIfFailed();
  TORCH_CHECK_WITH(
      DistBackendError, !shutDown_, operation.name, ": ", state_->describe(),
      " was shut down; make a new process group");
  state_->setDescription(getGroupDesc());
  // Ranks drive devices of different numbers, so the place where they meet is not called by those,
  // but by how often the same ranks have met before.
  const std::string meetingPoint =
      members.groupRanks.empty()
          ? c10::str("communicator/", connected_++)
          : c10::str(
                "pair/", members.groupRanks.front(), "-", members.groupRanks.back(), "/",
                pairsConnected_[members.groupRanks]++);
  CommunicatorConfig settings = config;
  settings.highPriority =
      options_->highPriorityStream || cann::env::flag("TORCH_HCCL_HIGH_PRIORITY");
  try {
    auto made =
        Communicator::connect(*store_, meetingPoint, members, device, settings, options_->timeout);
    state_->add(key, made);
    return made;
  } catch (const c10::DistBackendError& error) {
    // The meeting cannot be repeated: the others may have gone on with its traces in the store.
    state_->fail(
        c10::str(
            operation.text(), " of ", state_->describe(), ", on npu:", device, ": ",
            error.what_without_backtrace()));
    state_->claimReaction();
    state_->throwIfFailed();
    throw;
  }
}

int ProcessGroupHCCL::deviceForBarrier(const c10d::BarrierOptions& options) const {
  if (!options.device_ids.empty())
    return checkedDevice(static_cast<int>(options.device_ids.front()));
  if (const auto bound = getBoundDeviceId()) return bound->index();
  return lastDevice_ >= 0 ? lastDevice_.load() : currentDevice();
}

std::string ProcessGroupHCCL::communicatorName(int device) const {
  const auto existing = state_->find(deviceKey(checkedDevice(device)));
  return existing ? existing->name() : "";
}

c10d::Backend& ProcessGroupHCCL::cpuBackend(const char* operation) {
  std::lock_guard making(cpuMakingMutex_);
  {
    std::lock_guard lock(cpuMutex_);
    if (cpuBackend_) return *cpuBackend_;
  }
  TORCH_CHECK_VALUE(
      cpuBackendFactory_, operation,
      ": got a CPU tensor, but this group has no backend for CPU tensors; "
      "move the tensor to npu, or use init_process_group(\"cpu:gloo,npu:hccl\")");
  auto made = cpuBackendFactory_(
      c10::make_intrusive<c10d::PrefixStore>("cpu", store_), rank_, size_, options_->timeout);
  std::lock_guard lock(cpuMutex_);
  if (cpuAborted_) state_->throwIfFailed();
  cpuBackend_ = std::move(made);
  return *cpuBackend_;
}

void ProcessGroupHCCL::waitForPendingWorks() {
  std::vector<std::shared_ptr<Operation>> pending;
  {
    std::lock_guard lock(lastMutex_);
    pending = last_;
  }
  for (const auto& operation : pending) operation->waitOnHost();
}

void ProcessGroupHCCL::abort() {
  state_->fail(state_->describe() + ": aborted by this process; make a new process group to go on");
  state_->claimReaction();
  state_->abortCommunicators();
  c10::intrusive_ptr<c10d::Backend> cpu;
  {
    std::lock_guard lock(cpuMutex_);
    cpuAborted_ = true;
    cpu = cpuBackend_;
  }
  if (cpu) cpu->abort();
}

void ProcessGroupHCCL::shutdown() {
  if (shutDown_.exchange(true)) return;
  const bool known = state_->isDelivered();
  std::exception_ptr failure;
  try {
    waitForPendingWorks();
  } catch (const c10::Error&) {
    failure = std::current_exception();
    state_->abortCommunicators();
  }
  for (const auto& communicator : state_->communicators()) communicator->close();
  c10::intrusive_ptr<c10d::Backend> cpu;
  {
    std::lock_guard lock(cpuMutex_);
    cpu = cpuBackend_;
  }
  if (cpu) cpu->shutdown();
  if (failure && !known) std::rethrow_exception(failure);
}

}  // namespace torch_npu::distributed
