#include "emulator/Shm.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <map>
#include <mutex>
#include <system_error>

namespace npu_emulator::hccl {

namespace {

[[noreturn]] void throwErrno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

// How a thread has fared with yielding (Note [Yield before sleep]).
struct YieldHistory {
  uint32_t skip = 0;
  uint32_t penalty = kLeastPenalty;

  static constexpr uint32_t kLeastPenalty = 64;
  static constexpr uint32_t kMostPenalty = 4096;
};
thread_local YieldHistory yieldHistory;

constexpr auto kSlowYield = std::chrono::microseconds(100);
constexpr int kYieldsPerWait = 2;

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Mapping::Mapping(int fd, size_t bytes) : size_(bytes) {
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    throwErrno("mmap of shared memory");
  }
  ::madvise(data, bytes, MADV_DONTFORK);
  data_ = static_cast<std::byte*>(data);
}

Mapping::~Mapping() { ::munmap(data_, size_); }

Descriptor createSegment(const char* name, size_t bytes) {
  Descriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    throwErrno("memfd_create");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throwErrno("ftruncate of shared memory");
  }
  // Nobody may shrink it under a peer that has it mapped.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throwErrno("sealing of shared memory");
  }
  return fd;
}

std::shared_ptr<Mapping> mapDeviceMemory(int fd) {
  using Key = std::pair<dev_t, ino_t>;
  // Never destroyed: stream threads may release mappings during exit.
  static auto& lock = *new std::mutex;  // guards `known`; mmap is called under it
  static auto& known = *new std::map<Key, std::weak_ptr<Mapping>>;

  struct stat facts;
  if (::fstat(fd, &facts) != 0) {
    throwErrno("fstat of device memory");
  }
  std::lock_guard guard(lock);
  std::weak_ptr<Mapping>& entry = known[{facts.st_dev, facts.st_ino}];
  if (std::shared_ptr<Mapping> mapping = entry.lock()) {
    return mapping;
  }
  auto mapping = std::make_shared<Mapping>(fd, static_cast<size_t>(facts.st_size));
  entry = mapping;
  std::erase_if(known, [](const auto& item) { return item.second.expired(); });
  return mapping;
}

void Bell::ring(int waiters) {
  // Sequentially consistent against the increment in sleep(): either we see the sleeper, or the
  // kernel sees the new counter and does not let it sleep.
  counter_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    ::syscall(SYS_futex, &counter_, FUTEX_WAKE, waiters, nullptr, nullptr, 0);
  }
}

void Bell::sleep(uint32_t seen, std::chrono::nanoseconds atMost) {
  if (atMost <= std::chrono::nanoseconds::zero()) {
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(atMost);
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(seconds.count());
  timeout.tv_nsec = static_cast<long>((atMost - seconds).count());
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &counter_, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

YieldBudget YieldBudget::forWait() {
  YieldBudget budget;
  if (yieldHistory.skip > 0) {
    --yieldHistory.skip;
  } else {
    budget.left_ = kYieldsPerWait;
  }
  return budget;
}

bool YieldBudget::spend() {
  if (left_ == 0) {
    return false;
  }
  --left_;
  const auto start = std::chrono::steady_clock::now();
  ::sched_yield();
  if (std::chrono::steady_clock::now() - start > kSlowYield) {
    left_ = 0;
    yieldHistory.skip = yieldHistory.penalty;
    yieldHistory.penalty = std::min(yieldHistory.penalty * 2, YieldHistory::kMostPenalty);
  } else if (left_ == 0) {
    yieldHistory.penalty = YieldHistory::kLeastPenalty;
  }
  return true;
}

int availableCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

}  // namespace npu_emulator::hccl
