#include "runtime/Generator.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#include "runtime/Device.h"

namespace torch_npu {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kStateBytes = 2 * kWordBytes;
// One Philox round makes this many 32-bit numbers.
constexpr uint64_t kRound = 4;

static_assert(std::endian::native == std::endian::little,
              "the state's words are copied as they are");

c10::Device npu(c10::DeviceIndex index) {
  return c10::Device(c10::kPrivateUse1, index);
}

struct Defaults {
  std::mutex mutex;  // guards firstSeed and creation; taken before a generator's own mutex
  uint64_t firstSeed = c10::default_rng_seed_val;
  std::array<std::atomic<at::Generator*>, kMaxDevices> generators{};
};

// Never destroyed, as the generators: Python may hold them until the very end.
Defaults& defaults() {
  static Defaults* instance = new Defaults;
  return *instance;
}

}  // namespace

NPUGeneratorImpl::NPUGeneratorImpl(c10::DeviceIndex device)
    : NPUGeneratorImpl(device, c10::make_intrusive<Philox>()) {}

NPUGeneratorImpl::NPUGeneratorImpl(c10::DeviceIndex device, c10::intrusive_ptr<Philox> state)
    : c10::GeneratorImpl(npu(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(std::move(state)) {}

c10::DeviceType NPUGeneratorImpl::device_type() {
  return c10::kPrivateUse1;
}

std::pair<uint64_t, uint64_t> NPUGeneratorImpl::nextPhilox(uint64_t increment) {
  std::lock_guard lock(mutex_);
  const uint64_t offset = state_->offset;
  state_->offset += (increment + kRound - 1) / kRound * kRound;
  return {state_->seed, offset};
}

void NPUGeneratorImpl::set_current_seed(uint64_t seed) {
  state_->seed = seed;
  state_->offset = 0;
}

void NPUGeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK_VALUE(offset % kRound == 0, "the offset of an NPU generator must be a multiple of ",
                    kRound, ", got ", offset);
  state_->offset = offset;
}

uint64_t NPUGeneratorImpl::get_offset() const {
  return state_->offset;
}

uint64_t NPUGeneratorImpl::current_seed() const {
  return state_->seed;
}

uint64_t NPUGeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_->seed;
}

void NPUGeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK_VALUE(state.numel() == static_cast<int64_t>(kStateBytes),
                    "the state of an NPU generator has ", kStateBytes,
                    " bytes (seed, offset), got ", state.numel(),
                    ". Was it saved from a generator of another device?");
  const auto* bytes = static_cast<const char*>(state.data());
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::memcpy(&seed, bytes, kWordBytes);
  std::memcpy(&offset, bytes + kWordBytes, kWordBytes);
  set_offset(offset);
  state_->seed = seed;
}

c10::intrusive_ptr<c10::TensorImpl> NPUGeneratorImpl::get_state() const {
  at::TensorBase state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte,
                                               std::nullopt, std::nullopt, std::nullopt,
                                               std::nullopt);
  auto* bytes = static_cast<char*>(state.mutable_data_ptr());
  std::memcpy(bytes, &state_->seed, kWordBytes);
  std::memcpy(bytes + kWordBytes, &state_->offset, kWordBytes);
  return state.getIntrusivePtr();
}

void NPUGeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto* other = dynamic_cast<NPUGeneratorImpl*>(state.get());
  TORCH_CHECK_TYPE(other != nullptr, "expected the state of an NPU generator");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> NPUGeneratorImpl::graphsafe_get_state() const {
  return c10::make_intrusive<NPUGeneratorImpl>(device().index(), state_);
}

NPUGeneratorImpl* NPUGeneratorImpl::clone_impl() const {
  auto copy = c10::make_intrusive<Philox>();
  copy->seed = state_->seed;
  copy->offset = state_->offset;
  return new NPUGeneratorImpl(device().index(), std::move(copy));
}

const at::Generator& getDefaultGenerator(int device) {
  device = checkedDevice(device);
  std::atomic<at::Generator*>& slot = defaults().generators[device];
  at::Generator* generator = slot.load(std::memory_order_acquire);
  if (generator == nullptr) [[unlikely]] {
    std::lock_guard lock(defaults().mutex);
    generator = slot.load(std::memory_order_relaxed);
    if (generator == nullptr) {
      generator = new at::Generator(createGenerator(device));
      generator->set_current_seed(defaults().firstSeed);
      slot.store(generator, std::memory_order_release);
    }
  }
  return *generator;
}

void seedDefaultGenerators(uint64_t seed) {
  std::lock_guard lock(defaults().mutex);
  defaults().firstSeed = seed;
  for (const auto& slot : defaults().generators) {
    at::Generator* generator = slot.load(std::memory_order_relaxed);
    if (generator == nullptr) continue;
    std::lock_guard use(generator->mutex());
    generator->set_current_seed(seed);
  }
}

at::Generator createGenerator(int device) {
  return at::make_generator<NPUGeneratorImpl>(static_cast<c10::DeviceIndex>(checkedDevice(device)));
}

}  // namespace torch_npu
