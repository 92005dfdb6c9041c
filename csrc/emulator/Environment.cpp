#include "emulator/Environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace npu_emulator {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kDefaultDevices = 8;
constexpr uint32_t kMaxDevices = 1024;

bool parseInteger(const std::string& text, int64_t* value) {
  const char* end = text.data() + text.size();
  auto [last, code] = std::from_chars(text.data(), end, *value);
  return code == std::errc() && last == end && !text.empty();
}

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

uint64_t limitInFile(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = 0;
  if (!(file >> text) || !parseInteger(text, &value) || value <= 0) {
    return kUnlimited;  // no such file, or "max"
  }
  return static_cast<uint64_t>(value);
}

// The smallest memory limit of this process's control group and the groups around it.
uint64_t controlGroupLimit() {
  uint64_t limit = limitInFile("/sys/fs/cgroup/memory.max");
  limit = std::min(limit, limitInFile("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::");
    const auto legacy = line.find(":memory:");
    if (!unified && legacy == std::string::npos) {
      continue;
    }
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    std::string group = unified ? line.substr(3) : line.substr(legacy + 8);
    while (group.size() > 1) {
      limit = std::min(limit, limitInFile(root + group + file));
      group.resize(group.find_last_of('/'));
    }
  }
  return limit;
}

uint64_t availableMemory() {
  std::ifstream facts("/proc/meminfo");
  for (std::string line; std::getline(facts, line);) {
    if (line.starts_with("MemAvailable:")) {
      return std::strtoull(line.c_str() + sizeof("MemAvailable:") - 1, nullptr, 10) * 1024;
    }
  }
  return kUnlimited;
}

// 60% of what this machine can give, shared by the ranks of the job, in steps that hide small
// differences between ranks that start one after the other.
uint64_t defaultBytesPerDevice() {
  uint64_t memory = std::min(controlGroupLimit(), availableMemory());
  if (memory == kUnlimited) {
    memory = 4096 * kMiB;
  }
  const auto ranks = std::max<int64_t>(1, integerFromEnvironment("LOCAL_WORLD_SIZE", 1));
  const uint64_t share = memory / 10 * 6 / static_cast<uint64_t>(ranks);
  const uint64_t step = share >= 1024 * kMiB ? 256 * kMiB : 16 * kMiB;
  return std::max(step, share / step * step);
}

void readDevices(Environment& result) {
  const auto ranks = std::max<int64_t>(1, integerFromEnvironment("LOCAL_WORLD_SIZE", 1));
  int64_t devices = std::max<int64_t>(kDefaultDevices, ranks);
  if (const char* text = std::getenv("TORCH_NPU_EMULATOR_DEVICES"); text != nullptr && *text) {
    if (!parseInteger(trim(text), &devices) || devices < 0 || devices > kMaxDevices) {
      result.error = std::string("TORCH_NPU_EMULATOR_DEVICES=") + text +
                     ": expected a number from 0 to " + std::to_string(kMaxDevices);
      result.badDevices = true;
      return;
    }
  }
  result.machineDevices = static_cast<uint32_t>(std::min<int64_t>(devices, kMaxDevices));
  const char* mask = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (mask == nullptr) {
    for (uint32_t i = 0; i < result.machineDevices; ++i) {
      result.visible.push_back(static_cast<int>(i));
    }
    return;
  }
  std::stringstream list(mask);
  for (std::string item; std::getline(list, item, ',');) {
    int64_t id = -1;
    const bool number = parseInteger(trim(item), &id);
    std::string problem;
    if (!number) {
      problem = "'" + item + "' is not a device number";
    } else if (id < 0 || id >= result.machineDevices) {
      problem = "device " + std::to_string(id) + " does not exist";
    } else if (
        std::find(result.visible.begin(), result.visible.end(), id) != result.visible.end()) {
      problem = "device " + std::to_string(id) + " is named twice";
    }
    if (!problem.empty()) {
      result.error = std::string("ASCEND_RT_VISIBLE_DEVICES=") + mask + ": " + problem +
          (result.machineDevices == 0
               ? std::string("; this machine has no devices")
               : "; this machine has devices 0 to " + std::to_string(result.machineDevices - 1)) +
          " (emulated; TORCH_NPU_EMULATOR_DEVICES sets how many)";
      result.badDevices = true;
      result.visible.clear();
      return;
    }
    result.visible.push_back(static_cast<int>(id));
  }
}

void readMemory(Environment& result) {
  const char* text = std::getenv("TORCH_NPU_EMULATOR_MEMORY");
  if (text == nullptr || *text == '\0') {
    result.bytesPerDevice = defaultBytesPerDevice();
    return;
  }
  if (!parseBytes(trim(text), &result.bytesPerDevice) || result.bytesPerDevice < kMiB) {
    result.error = std::string("TORCH_NPU_EMULATOR_MEMORY=") + text +
        ": expected bytes per device, at least 1 MiB, as in 2147483648, 512M or 2GiB";
  }
}

}  // namespace

int64_t integerFromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && parseInteger(trim(text), &value) ? value : fallback;
}

bool parseBytes(const std::string& text, uint64_t* bytes) {
  const char* end = text.data() + text.size();
  double number = 0;
  auto [last, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || !(number >= 0)) {
    return false;
  }
  std::string unit = trim(std::string(last, end));
  std::transform(
      unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* suffix : {"ib", "b"}) {
    if (unit.ends_with(suffix)) {
      unit.resize(unit.size() - std::string(suffix).size());
      break;
    }
  }
  constexpr std::array<const char*, 5> kUnits{"", "k", "m", "g", "t"};
  for (size_t power = 0; power < kUnits.size(); ++power) {
    if (unit == kUnits[power]) {
      const double value = number * static_cast<double>(uint64_t{1} << (10 * power));
      if (value >= 0x1p62) {
        return false;
      }
      *bytes = static_cast<uint64_t>(value);
      return true;
    }
  }
  return false;
}

std::string describeBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text.data();
}

Environment readEnvironment() {
  Environment result;
  readDevices(result);
  if (result.error.empty()) {
    readMemory(result);
  }
  return result;
}

}  // namespace npu_emulator
