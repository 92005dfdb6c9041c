#include "emulator/PeerWatch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/Communicator.h"

namespace npu_emulator::hccl {

namespace {

struct Watched {
  Descriptor pidfd;
  std::vector<std::pair<std::weak_ptr<Communicator>, uint32_t>> ranks;
};

bool hasEnded(int pidfd) {
  pollfd item{pidfd, POLLIN, 0};
  return ::poll(&item, 1, 0) > 0;
}

// The process behind a pidfd as this process numbers it; 0 if it cannot be told.
int processOf(int pidfd) {
  std::ifstream facts("/proc/self/fdinfo/" + std::to_string(pidfd));
  for (std::string line; std::getline(facts, line);) {
    int process = 0;
    if (std::sscanf(line.c_str(), "Pid: %d", &process) == 1) {
      return process > 0 ? process : 0;
    }
  }
  return 0;
}

class Watch {
 public:
  Watch() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) {
      throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    std::thread([this] { loop(); }).detach();  // sleeps in poll until the process ends
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void add(std::weak_ptr<Communicator> communicator, uint32_t rank, Descriptor pidfd) {
    {
      std::lock_guard guard(mutex_);
      const int process = processOf(pidfd.get());
      // A negative key: a process without a number here, never shared.
      Watched& entry = watched_[process > 0 ? process : --anonymous_];
      if (entry.pidfd && hasEnded(entry.pidfd.get())) {
        // The number was reused; the loop has yet to report the process that had it before.
        watched_[--anonymous_] = std::exchange(entry, {});
      }
      if (!entry.pidfd) {
        entry.pidfd = std::move(pidfd);
      }
      std::erase_if(entry.ranks, [](const auto& item) { return item.first.expired(); });
      entry.ranks.emplace_back(std::move(communicator), rank);
    }
    const uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof(one)) < 0 && errno != EAGAIN) {
      std::perror("torch_npu emulator: waking the peer watch");
    }
  }

 private:
  void loop() {
    std::vector<pollfd> items;
    std::vector<int> keys;
    for (;;) {
      items.assign(1, pollfd{wake_.get(), POLLIN, 0});
      keys.assign(1, 0);
      {
        std::lock_guard guard(mutex_);
        for (auto item = watched_.begin(); item != watched_.end();) {
          auto& [key, entry] = *item;
          std::erase_if(entry.ranks, [](const auto& rank) { return rank.first.expired(); });
          if (entry.ranks.empty()) {
            item = watched_.erase(item);
            continue;
          }
          items.push_back(pollfd{entry.pidfd.get(), POLLIN, 0});
          keys.push_back(key);
          ++item;
        }
      }
      if (::poll(items.data(), items.size(), -1) < 0) {
        continue;
      }
      uint64_t ignored;
      while (::read(wake_.get(), &ignored, sizeof(ignored)) > 0) {
      }
      for (size_t i = 1; i < items.size(); ++i) {
        if (items[i].revents != 0) {
          report(keys[i], items[i].fd);
        }
      }
    }
  }

  void report(int key, int pidfd) {
    Watched dead;
    {
      std::lock_guard guard(mutex_);
      const auto found = watched_.find(key);
      if (found == watched_.end() || found->second.pidfd.get() != pidfd) {
        return;
      }
      dead = std::move(found->second);
      watched_.erase(found);
    }
    for (const auto& [weak, rank] : dead.ranks) {
      if (const auto communicator = weak.lock()) {
        communicator->peerDied(rank);
      }
    }
  }

  Descriptor wake_;
  std::mutex mutex_;  // guards what follows
  std::map<int, Watched> watched_;
  int anonymous_ = 0;
};

}  // namespace

void watchPeer(std::weak_ptr<Communicator> communicator, uint32_t rank, Descriptor pidfd) {
  static Watch& watch = *new Watch;  // its thread never ends
  watch.add(std::move(communicator), rank, std::move(pidfd));
}

}  // namespace npu_emulator::hccl
