#include "emulator/Trace.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace npu_emulator {
namespace {

// Descriptor of the trace file, -1 for none. A line is one write() to a file opened for appending,
// so that ranks can share a file.
int traceFile() noexcept {
  static const int file = [] {
    const char* path = std::getenv("TORCH_NPU_EMULATOR_TRACE");
    if (path == nullptr || *path == '\0') {
      return -1;
    }
    const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
      std::fprintf(
          stderr, "torch_npu: TORCH_NPU_EMULATOR_TRACE: cannot write %s: %s\n", path,
          std::strerror(errno));
    }
    return fd;
  }();
  return file;
}

long threadId() {
  static thread_local const long id = ::syscall(SYS_gettid);
  return id;
}

void writeLine(const char* text, int length) {
  // A full disk must not stop the program that is traced: the line is lost.
  if (::write(traceFile(), text, static_cast<size_t>(length)) < 0) {
    return;
  }
}

}  // namespace

uint64_t nowNanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

bool tracing() noexcept {
  return traceFile() >= 0;
}

bool instrumented() noexcept {
  static const bool value = tracing() || faultsRequested();
  return value;
}

void traceCall(const char* name, uint64_t start, uint64_t end, int64_t result) {
  if (!tracing()) {
    return;
  }
  std::array<char, 512> line{};
  const int length = std::snprintf(
      line.data(), line.size(),
      "{\"kind\":\"call\",\"name\":\"%s\",\"pid\":%d,\"tid\":%ld,\"start\":%llu,\"end\":%llu,"
      "\"result\":%lld}\n",
      name, static_cast<int>(::getpid()), threadId(), static_cast<unsigned long long>(start),
      static_cast<unsigned long long>(end), static_cast<long long>(result));
  writeLine(line.data(), length);
}

void traceTask(
    const char* name, int device, int stream, uint64_t queued, uint64_t start, uint64_t end,
    int64_t result) {
  if (!tracing()) {
    return;
  }
  std::array<char, 512> line{};
  const int length = std::snprintf(
      line.data(), line.size(),
      "{\"kind\":\"task\",\"name\":\"%s\",\"pid\":%d,\"tid\":%ld,\"device\":%d,\"stream\":%d,"
      "\"queued\":%llu,\"start\":%llu,\"end\":%llu,\"result\":%lld}\n",
      name, static_cast<int>(::getpid()), threadId(), device, stream,
      static_cast<unsigned long long>(queued), static_cast<unsigned long long>(start),
      static_cast<unsigned long long>(end), static_cast<long long>(result));
  writeLine(line.data(), length);
}

}  // namespace npu_emulator
