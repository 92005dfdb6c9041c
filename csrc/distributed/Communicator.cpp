#include "distributed/Communicator.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "cann/Hccl.h"
#include "runtime/Device.h"

namespace torch_npu::distributed {
namespace {

using std::chrono::milliseconds;

// How long abort() waits for launches that are inside HCCL with the handle.
constexpr milliseconds kLaunchGrace{1000};
// The other ranks wait this much longer than rank 0, whose answer names the missing ranks.
constexpr milliseconds kAnswerGrace{2000};

// Note [Communication streams]
// A communicator has a stream of its own, so that a collective that waits for a peer holds up
// nothing else; the pools that users draw from have no part in it. Streams are never destroyed
// (runtime/Stream.h), hence those of communicators that ended well are used again; one that carries
// a failed task is left behind.
class StreamShelf {
 public:
  NPUStream take(int device, bool highPriority) {
    {
      std::lock_guard lock(mutex_);
      auto& idle = idle_[{device, highPriority}];
      if (!idle.empty()) {
        NPUStream stream = idle.back();
        idle.pop_back();
        return stream;
      }
    }
    return createStream(device, highPriority ? -1 : 0);
  }

  void giveBack(const NPUStream& stream, bool highPriority) {
    std::lock_guard lock(mutex_);
    idle_[{stream.deviceIndex(), highPriority}].push_back(stream);
  }

 private:
  std::mutex mutex_;  // guards idle_; no CANN call while held
  std::map<std::pair<int, bool>, std::vector<NPUStream>> idle_;
};

StreamShelf& streamShelf() {
  static auto* shelf = new StreamShelf;  // leaked: communicators may die during exit
  return *shelf;
}

// A store key's value: 'R' and the root info, or 'E' and why there is none.
constexpr uint8_t kRootInfoTag = 'R';
constexpr uint8_t kErrorTag = 'E';

std::string arrivalKey(const std::string& key, int rank) {
  return key + "/arrived/" + std::to_string(rank);
}

std::string missingRanks(c10d::Store& store, const std::string& key, const Membership& members) {
  std::string missing;
  for (int rank = 0; rank < members.size; ++rank) {
    if (store.check({arrivalKey(key, rank)})) continue;
    if (!missing.empty()) missing += ", ";
    missing += members.describe(rank);
  }
  return missing;
}

std::string lateText(const std::string& missing, const Membership& members, milliseconds timeout) {
  return c10::str(
      "while the ", members.size, " ranks met to build a communicator, these did not come within ",
      static_cast<double>(timeout.count()) / 1000,
      " s: ", missing.empty() ? "(all came, but rank 0 did not answer)" : missing,
      ". Look at what they do instead; every rank of the group must call the same "
      "operations in the same order. A longer limit: init_process_group(timeout=...)");
}

[[noreturn]] void throwConnect(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }

void publish(
    c10d::Store& store, const std::string& key, uint8_t tag, const void* data, size_t bytes) {
  std::vector<uint8_t> value(1 + bytes);
  value[0] = tag;
  std::memcpy(value.data() + 1, data, bytes);
  store.set(key, value);
}

// Rank 0 waits for everyone, then tells all either the root info or what is wrong, so that a rank
// that does not come is named everywhere.
HcclRootInfo offerRootInfo(
    c10d::Store& store, const std::string& key, const Membership& members, milliseconds timeout) {
  std::vector<std::string> arrivals;
  for (int rank = 0; rank < members.size; ++rank) arrivals.push_back(arrivalKey(key, rank));
  try {
    store.wait(arrivals, timeout);
    HcclRootInfo info{};
    cann::HcclGetRootInfo.check(&info);
    publish(store, key, kRootInfoTag, &info, sizeof(info));
    return info;
  } catch (const std::exception& error) {
    const std::string missing = missingRanks(store, key, members);
    const std::string text =
        missing.empty() ? messageOf(error) : lateText(missing, members, timeout);
    publish(store, key, kErrorTag, text.data(), text.size());
    throwConnect(text);
  }
}

HcclRootInfo takeRootInfo(
    c10d::Store& store, const std::string& key, const Membership& members, milliseconds timeout) {
  std::vector<uint8_t> value;
  try {
    store.wait({key}, timeout + kAnswerGrace);
    value = store.get(key);
  } catch (const std::exception&) {
    throwConnect(lateText(missingRanks(store, key, members), members, timeout));
  }
  if (!value.empty() && value[0] == kErrorTag) {
    throwConnect(std::string(value.begin() + 1, value.end()));
  }
  HcclRootInfo info{};
  TORCH_CHECK_WITH(
      DistBackendError, value.size() == 1 + sizeof(info) && value[0] == kRootInfoTag,
      "the store holds ", value.size(), " bytes under '", key, "', expected ", 1 + sizeof(info),
      ": do all ranks run the same version of torch_npu?");
  std::memcpy(&info, value.data() + 1, sizeof(info));
  return info;
}

template <size_t N>
void copyText(char (&target)[N], const std::string& text) {
  std::memset(target, 0, N);
  std::memcpy(target, text.data(), std::min(text.size(), N - 1));
}

// Everything "not set", in the layout that HCCL recognises by the size and version in front.
HcclCommConfig hcclConfig(const CommunicatorConfig& wanted) {
  HcclCommConfig config{};
  struct Header {
    size_t size;
    uint32_t magic;
    uint32_t version;
    uint64_t reserved;
  };
  static_assert(sizeof(Header) == sizeof(config.reserved));
  const Header header{
      sizeof(HcclCommConfig), static_cast<uint32_t>(HCCL_COMM_CONFIG_MAGIC_WORD),
      HCCL_COMM_CONFIG_VERSION, 0};
  std::memcpy(config.reserved, &header, sizeof(header));
  config.hcclBufferSize = wanted.bufferSize != 0
                              ? wanted.bufferSize
                              : static_cast<uint32_t>(HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET);
  config.hcclDeterministic = static_cast<uint32_t>(HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET);
  copyText(config.hcclCommName, wanted.name);
  config.hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
  config.hcclRdmaTrafficClass = static_cast<uint32_t>(HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET);
  config.hcclRdmaServiceLevel = static_cast<uint32_t>(HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET);
  config.hcclExecTimeOut = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
  config.hcclQos = static_cast<uint32_t>(HCCL_COMM_QOS_CONFIG_NOT_SET);
  config.hcclSymWinMaxMemSizePerRank = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
  return config;
}

}  // namespace

std::string messageOf(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  return known != nullptr ? known->what_without_backtrace() : error.what();
}

std::string Membership::describe(int member) const {
  const auto index = static_cast<size_t>(member);
  const int rank = index < groupRanks.size() ? groupRanks[index] : member;
  const auto global = index < globalRanks.size() ? globalRanks[index] : static_cast<uint64_t>(rank);
  if (global == static_cast<uint64_t>(rank)) return c10::str("rank ", rank);
  return c10::str("rank ", rank, " (global rank ", global, ")");
}

std::shared_ptr<Communicator> Communicator::connect(
    c10d::Store& store, const std::string& key, const Membership& members, int device,
    const CommunicatorConfig& config, milliseconds timeout) {
  DeviceScope scope(device);
  const std::string me = std::to_string(device);
  store.set(arrivalKey(key, members.rank), std::vector<uint8_t>(me.begin(), me.end()));
  const HcclRootInfo info = members.rank == 0 ? offerRootInfo(store, key, members, timeout)
                                              : takeRootInfo(store, key, members, timeout);

  const auto size = static_cast<uint32_t>(members.size);
  const auto rank = static_cast<uint32_t>(members.rank);
  HcclComm handle = nullptr;
  if (cann::HcclCommInitRootInfoConfig.available()) {
    const HcclCommConfig settings = hcclConfig(config);
    cann::HcclCommInitRootInfoConfig.check(size, &info, rank, &settings, &handle);
  } else {
    cann::HcclCommInitRootInfo.check(size, &info, rank, &handle);
  }
  NPUStream stream = streamShelf().take(device, config.highPriority);
  return std::shared_ptr<Communicator>(
      new Communicator(handle, members.size, stream, config.highPriority));
}

Communicator::Communicator(HcclComm handle, int size, NPUStream stream, bool highPriority)
    : handle_(handle), size_(size), stream_(stream), highPriority_(highPriority) {}

Communicator::~Communicator() {
  end();
  if (!poisoned_.load(std::memory_order_acquire)) streamShelf().giveBack(stream_, highPriority_);
}

std::string Communicator::name() const {
  char name[COMM_NAME_MAX_LENGTH] = {};
  Lease lease(*this);
  cann::HcclGetCommName.check(lease.handle(), name);
  return std::string(name, strnlen(name, sizeof(name)));
}

Communicator::Lease::Lease(const Communicator& owner) : lock_(owner.life_), handle_(owner.handle_) {
  TORCH_CHECK_WITH(
      DistBackendError, !owner.isEnded(),
      "the communicator was aborted or shut down; make a new process group to go on");
}

std::optional<std::string> Communicator::asyncError() const {
  std::shared_lock lock(life_);
  if (isEnded() || isFinalized()) return std::nullopt;
  HcclResult error = HCCL_SUCCESS;
  const HcclResult asked = cann::HcclGetCommAsyncError(handle_, &error);
  if (asked != HCCL_SUCCESS) return cann::describeHcclError("HcclGetCommAsyncError", asked);
  if (error == HCCL_SUCCESS) return std::nullopt;
  return cann::describeHcclError("a collective", error);
}

void Communicator::abort() noexcept {
  poisonStream();
  end();
}

void Communicator::end() noexcept {
  if (ended_.exchange(true, std::memory_order_acq_rel)) return;
  if (isFinalized()) return;  // CANN took its communicators with it
  std::unique_lock lock(life_, kLaunchGrace);
  if (!lock.owns_lock()) {
    LOG(WARNING) << "a thread is inside an HCCL call for more than " << kLaunchGrace.count()
                 << " ms; its communicator is destroyed under it, to set it free";
  }
  try {
    DeviceScope scope(device());
    const HcclResult result = cann::HcclCommDestroy(handle_);
    if (result != HCCL_SUCCESS) LOG(WARNING) << cann::describeHcclError("HcclCommDestroy", result);
  } catch (const std::exception& error) {
    LOG(WARNING) << "HcclCommDestroy: " << messageOf(error);
  }
}

}  // namespace torch_npu::distributed
