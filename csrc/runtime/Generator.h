// Random generator: a Philox key (seed) and counter (offset). Kernels take stretches of the
// counter.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <utility>

namespace torch_npu {

class NPUGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit NPUGeneratorImpl(c10::DeviceIndex device);

  static c10::DeviceType device_type();  // asked by at::check_generator

  // {seed, offset} for a kernel that draws at most `increment` values per Philox lane. Advances the
  // offset by `increment` rounded up to 4 (one Philox round makes four 32-bit numbers; DTensor
  // counts in the same unit). Takes mutex_ itself: the caller must not hold it.
  std::pair<uint64_t, uint64_t> nextPhilox(uint64_t increment);

  // c10::GeneratorImpl: callers hold mutex_ where they share the generator.
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  // 16 bytes on the CPU, uint8: seed, then offset, both little-endian 64 bits.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // Share the state itself instead of copying it.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  struct Philox final : c10::intrusive_ptr_target {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  NPUGeneratorImpl(c10::DeviceIndex device, c10::intrusive_ptr<Philox> state);

 private:
  NPUGeneratorImpl* clone_impl() const override;

  c10::intrusive_ptr<Philox> state_;
};

// device -1: the current one. Touches no device.
const at::Generator& getDefaultGenerator(int device = -1);
at::Generator createGenerator(int device = -1);
// Seeds the default generators of all devices: those that exist, and those made later. Asks for no
// device, so that a program that uses none can call it (torch.manual_seed does in every program).
void seedDefaultGenerators(uint64_t seed);

}  // namespace torch_npu
