// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3" (SC 2011): ten rounds turn a counter and a key into four words.
#pragma once

#include <array>
#include <cstdint>

namespace npu_emulator::ops {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  // The key is the seed. Every offset is a sequence of its own: it is the upper half of the
  // counter, the lower half counts the blocks of that sequence.
  Philox(int64_t seed, int64_t offset)
      : seed_(static_cast<uint64_t>(seed)), offset_(static_cast<uint64_t>(offset)) {}

  Block operator()(uint64_t block) const {
    Block counter = {low(block), high(block), low(offset_), high(offset_)};
    uint32_t key0 = low(seed_);
    uint32_t key1 = high(seed_);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t product0 = kMultiplier0 * counter[0];
      const uint64_t product1 = kMultiplier1 * counter[2];
      counter = {
          high(product1) ^ counter[1] ^ key0, low(product1), high(product0) ^ counter[3] ^ key1,
          low(product0)};
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
    return counter;
  }

 private:
  static constexpr int kRounds = 10;
  static constexpr uint64_t kMultiplier0 = 0xD2511F53;
  static constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  static constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1

  static constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
  static constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

  uint64_t seed_;
  uint64_t offset_;
};

}  // namespace npu_emulator::ops
