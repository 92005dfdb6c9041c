#include "aten/Random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/add.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/random.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <limits>

#include "aten/Copy.h"
#include "aten/Factory.h"
#include "aten/Fallback.h"
#include "aten/Launch.h"
#include "runtime/Generator.h"

// Note [Philox stretches]
// A kernel gets (seed, offset) and numbers its elements itself; the offset selects an independent
// sequence per call, so it advances by a constant, not by the number of elements. 10 values per
// element is what CANN's own rejection-free kernels are given by their users; the generator rounds
// it to 12.
namespace torch_npu::aten {
namespace {

constexpr uint64_t kDrawsPerElement = 10;

struct PhiloxStart {
  int64_t seed;
  int64_t offset;
};

NPUGeneratorImpl* generatorFor(
    const std::optional<at::Generator>& generator, c10::Device device) {
  if (generator.has_value() && generator->defined()) {
    return at::check_generator<NPUGeneratorImpl>(generator);
  }
  return at::check_generator<NPUGeneratorImpl>(getDefaultGenerator(device.index()));
}

// aclnn takes both as int64: the same 64 bits.
PhiloxStart nextStart(const std::optional<at::Generator>& generator, c10::Device device) {
  const auto [seed, offset] = generatorFor(generator, device)->nextPhilox(kDrawsPerElement);
  return {static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
}

void checkFilled(const at::Tensor& self, const char* name) {
  TORCH_CHECK(
      self.device().type() == c10::DeviceType::PrivateUse1, name,
      " with an npu generator expects an npu tensor, got one on ", self.device());
  at::assert_no_internal_overlap(self);
}

void checkFloating(const at::Tensor& self, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isFloatingType(self.scalar_type()), name, " is not implemented for '", self.scalar_type(),
      "': expected a floating-point tensor");
}

// Of a real dtype: lowest and highest value, and the bits within which every integer is exact.
struct Range {
  double lowest;
  double highest;
  int digits;
};

Range rangeOf(at::ScalarType type) {
  Range range{};
  AT_DISPATCH_V2(
      type, "random_", AT_WRAP([&] {
        using Limits = std::numeric_limits<scalar_t>;
        range = {
            static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()),
            Limits::digits};
      }),
      AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf, at::kBFloat16,
      at::kBool);
  return range;
}

// One past the largest value that random_ without bounds draws: every value of an integer type, all
// exactly representable counting numbers of a floating one. The largest int64 itself is never
// drawn, since aclnn's bound is an exclusive int64.
int64_t defaultEnd(at::ScalarType type) {
  const int digits = rangeOf(type).digits;
  if (digits >= 63) {
    return std::numeric_limits<int64_t>::max();
  }
  return (int64_t{1} << digits) + (at::isFloatingType(type) ? 1 : 0);
}

at::Tensor& drawIntegers(
    at::Tensor& self, int64_t from, int64_t to, const std::optional<at::Generator>& generator) {
  const OnDevice scope(self);
  if (self.numel() != 0) {
    const PhiloxStart start = nextStart(generator, self.device());
    launch(cann::aclnnInplaceRandom, self, from, to, start.seed, start.offset);
  }
  return self;
}

// All 2^64 values: two independent halves, since aclnn's exclusive int64 bound cannot say so.
at::Tensor& drawAllBits(at::Tensor& self, const std::optional<at::Generator>& generator) {
  at::Tensor bits = self.is_contiguous()
      ? self
      : emptyContiguous(self.sizes(), self.scalar_type(), self.device());
  at::Tensor halves = at::native::view_dtype(
      at::native::view(bits, {bits.numel()}), at::kInt);
  drawIntegers(
      halves, std::numeric_limits<int32_t>::min(), int64_t{std::numeric_limits<int32_t>::max()} + 1,
      generator);
  if (!bits.is_same(self)) {
    copyTensor(self, bits, /*nonBlocking=*/true);
  }
  return self;
}

}  // namespace

at::Generator hostGenerator(const std::optional<at::Generator>& generator, c10::Device device) {
  const auto [seed, offset] = generatorFor(generator, device)->nextPhilox(kDrawsPerElement);
  // splitmix64's finaliser: the CPU generator looks at the low 32 bits only, and all must count.
  uint64_t mixed = seed + offset * 0x9E3779B97F4A7C15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
  return at::detail::createCPUGenerator(mixed ^ (mixed >> 31));
}

at::Tensor& normal_(
    at::Tensor& self, double mean, double std, std::optional<at::Generator> generator) {
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  checkFilled(self, "normal_");
  if (self.is_complex()) {  // the variance is shared by the two parts
    at::Tensor parts = at::native::view_as_real(self);
    normal_(parts, mean, std / std::sqrt(2.0), generator);
    return self;
  }
  checkFloating(self, "normal_");
  if (self.numel() == 0) {
    return self;
  }
  const OnDevice scope(self);
  const PhiloxStart start = nextStart(generator, self.device());
  // aclnn's mean and std are float32: a float64 tensor can ask for more.
  const bool exact = self.scalar_type() != at::kDouble ||
      (static_cast<float>(mean) == mean && static_cast<float>(std) == std);
  launch(
      cann::aclnnInplaceNormal, self, exact ? mean : 0.0, exact ? std : 1.0, start.seed,
      start.offset);
  if (!exact) {
    self.mul_(std).add_(mean);
  }
  return self;
}

at::Tensor& uniform_(
    at::Tensor& self, double from, double to, std::optional<at::Generator> generator) {
  checkFilled(self, "uniform_");
  if (self.is_complex()) {
    at::Tensor parts = at::native::view_as_real(self);
    uniform_(parts, from, to, generator);
    return self;
  }
  checkFloating(self, "uniform_");
  const Range range = rangeOf(self.scalar_type());
  TORCH_CHECK(
      from >= range.lowest && from <= range.highest, "uniform_: from=", from,
      " is out of bounds for ", self.scalar_type());
  TORCH_CHECK(
      to >= range.lowest && to <= range.highest, "uniform_: to=", to, " is out of bounds for ",
      self.scalar_type());
  TORCH_CHECK(
      from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
      " > to=", to);
  TORCH_CHECK(
      to - from <= range.highest, "uniform_ expects to-from <= std::numeric_limits<",
      self.scalar_type(), ">::max(), but found to=", to, " and from=", from);
  if (self.numel() == 0) {
    return self;
  }
  const OnDevice scope(self);
  const auto [seed, offset] = generatorFor(generator, self.device())->nextPhilox(kDrawsPerElement);
  launch(cann::aclnnInplaceUniform, self, from, to, seed, offset);
  return self;
}

at::Tensor& random_(at::Tensor& self, std::optional<at::Generator> generator) {
  checkFilled(self, "random_");
  return drawIntegers(self, 0, defaultEnd(self.scalar_type()), generator);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, std::optional<at::Generator> generator) {
  return random_from(self, 0, to, std::move(generator));
}

at::Tensor& random_from(
    at::Tensor& self, int64_t from, std::optional<int64_t> to,
    std::optional<at::Generator> generator) {
  checkFilled(self, "random_");
  const at::ScalarType type = self.scalar_type();
  if (!to.has_value() && from == std::numeric_limits<int64_t>::min()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        type == at::kLong, "random_ over the whole range of 64 bits is implemented for int64, not ",
        type);
    return drawAllBits(self, generator);
  }
  const int64_t end = to.has_value() ? *to : defaultEnd(type);
  TORCH_CHECK(
      from < end, "random_ expects 'from' to be less than 'to', but got from=", from,
      " >= to=", end);
  const Range range = rangeOf(type);
  TORCH_CHECK(
      static_cast<double>(from) >= range.lowest && static_cast<double>(from) <= range.highest,
      "from is out of bounds for ", type);
  TORCH_CHECK(
      static_cast<double>(end - 1) >= range.lowest && static_cast<double>(end - 1) <= range.highest,
      "to - 1 is out of bounds for ", type);
  return drawIntegers(self, from, end, generator);
}

at::Tensor& bernoulli_float(
    at::Tensor& self, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  checkFilled(self, "bernoulli_");
  if (self.numel() == 0) {
    return self;
  }
  const OnDevice scope(self);
  const PhiloxStart start = nextStart(generator, self.device());
  launch(cann::aclnnInplaceBernoulli, self, p, start.seed, start.offset);
  return self;
}

at::Tensor& bernoulli_Tensor(
    at::Tensor& self, const at::Tensor& p, std::optional<at::Generator> generator) {
  checkFilled(self, "bernoulli_");
  TORCH_CHECK(
      at::isFloatingType(p.scalar_type()),
      "bernoulli_ expects a floating-point tensor of probabilities, got ", p.scalar_type());
  TORCH_CHECK(
      p.is_cpu() || p.device() == self.device(),
      "Expected all tensors to be on the same device, but found at least two devices, ",
      self.device(), " and ", p.device(), "!");
  const OnDevice scope(self);
  const at::Tensor local = p.is_cpu() ? toDevice(p, self.device()) : p;
  const auto geometry =
      at::inferExpandGeometry_dimvector(local.sizes(), local.strides(), self.sizes());
  if (self.numel() == 0) {
    return self;
  }
  const at::Tensor probabilities = at::native::as_strided_tensorimpl(
      local, geometry.sizes, geometry.strides, local.storage_offset());
  const PhiloxStart start = nextStart(generator, self.device());
  if (self.scalar_type() == at::kBFloat16) {  // aclnn does not document it for this function
    const at::Tensor drawn = emptyContiguous(self.sizes(), at::kFloat, self.device());
    launch(cann::aclnnInplaceBernoulliTensor, drawn, probabilities, start.seed, start.offset);
    copyTensor(self, drawn, /*nonBlocking=*/true);
  } else {
    launch(cann::aclnnInplaceBernoulliTensor, self, probabilities, start.seed, start.offset);
  }
  return self;
}

at::Tensor& bernoulli_out(
    const at::Tensor& self, std::optional<at::Generator> generator, at::Tensor& out) {
  at::native::resize_output(out, self.sizes());
  return bernoulli_Tensor(out, self, std::move(generator));
}

at::Tensor& randperm_generator_out(
    int64_t n, std::optional<at::Generator> generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got ", n);
  checkFilled(out, "randperm");
  const Range range = rangeOf(out.scalar_type());
  const double exact =
      at::isFloatingType(out.scalar_type()) ? std::exp2(range.digits) : range.highest;
  TORCH_CHECK(
      static_cast<double>(n) - 1 <= exact, "randperm: n=", n, " is too large for dtype ",
      out.scalar_type(), ", whose largest exact value is ", exact);
  at::native::resize_output(out, {n});
  if (n == 0) {
    return out;
  }
  const OnDevice scope(out);
  const PhiloxStart start = nextStart(generator, out.device());
  launch(cann::aclnnRandperm, n, start.seed, start.offset, out);
  return out;
}

std::tuple<at::Tensor, at::Tensor> native_dropout(
    const at::Tensor& input, double p, std::optional<bool> train) {
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const auto maskOptions = input.options().dtype(at::kBool);
  if (input.numel() == 0 || !train.value_or(true)) {
    return {input.clone(), at::ones_like(input, maskOptions)};
  }
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, maskOptions)};
  }
  const OnDevice scope(input);
  at::Tensor mask = at::empty_like(input, maskOptions);
  bernoulli_float(mask, 1 - p, std::nullopt);
  return {at::mul(input, mask).mul_(1 / (1 - p)), mask};
}

at::Tensor native_dropout_backward(
    const at::Tensor& gradOutput, const at::Tensor& mask, double scale) {
  return at::mul(gradOutput, mask).mul(scale);
}

}  // namespace torch_npu::aten
