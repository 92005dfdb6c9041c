// Random numbers. Element i of a result depends on seed, offset and i, never on who computes it.
#include "emulator/ops/Kernel.h"
#include "emulator/ops/Philox.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace npu_emulator::ops {

namespace {

constexpr int64_t kGrain = 4096;  // elements a thread takes at least

// Lets `draw(words, values)` fill groups of `Group` values, each from one block of four words.
template <class Value, int64_t Group, class Draw>
void generate(Value* out, int64_t count, const Philox& philox, const Draw& draw) {
  const int64_t groups = (count + Group - 1) / Group;
  at::parallel_for(0, groups, kGrain / Group, [&](int64_t begin, int64_t end) {
    std::array<Value, Group> values;
    for (int64_t group = begin; group < end; ++group) {
      draw(philox(static_cast<uint64_t>(group)), values);
      const int64_t start = group * Group;
      std::copy_n(values.begin(), std::min(Group, count - start), out + start);
    }
  });
}

// Values of type Value in the order of the elements of `like`, in memory of their own.
template <class Value, int64_t Group, class Draw>
Tensor sample(const Tensor& like, const Philox& philox, const Draw& draw) {
  Tensor values = at::empty(like.sizes(), like.options().dtype(c10::CppTypeToScalarType<Value>()));
  generate<Value, Group>(values.mutable_data_ptr<Value>(), values.numel(), philox, draw);
  return values;
}

// [0, 1) with the 24 bits of a float.
float unitFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// [0, 1) with the 53 bits of a double.
double unitDouble(uint32_t first, uint32_t second) {
  const uint64_t bits = (static_cast<uint64_t>(first) << 32 | second) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

Tensor uniform(const Tensor& like, const Philox& philox) {
  if (like.scalar_type() == at::kDouble) {
    return sample<double, 2>(like, philox, [](const Philox::Block& words, auto& values) {
      values = {unitDouble(words[0], words[1]), unitDouble(words[2], words[3])};
    });
  }
  return sample<float, 4>(like, philox, [](const Philox::Block& words, auto& values) {
    std::transform(words.begin(), words.end(), values.begin(), unitFloat);
  });
}

// Box-Muller: two uniform numbers give two independent normal ones.
template <class Value>
std::array<Value, 2> normalPair(Value first, Value second) {
  const Value radius = std::sqrt(-2 * std::log1p(-first));  // 1 - first is in (0, 1]
  const Value angle = 2 * std::numbers::pi_v<Value> * second;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

Tensor standardNormal(const Tensor& like, const Philox& philox) {
  if (like.scalar_type() == at::kDouble) {
    return sample<double, 2>(like, philox, [](const Philox::Block& words, auto& values) {
      values = normalPair(unitDouble(words[0], words[1]), unitDouble(words[2], words[3]));
    });
  }
  return sample<float, 4>(like, philox, [](const Philox::Block& words, auto& values) {
    const auto a = normalPair(unitFloat(words[0]), unitFloat(words[1]));
    const auto b = normalPair(unitFloat(words[2]), unitFloat(words[3]));
    values = {a[0], a[1], b[0], b[1]};
  });
}

// Integers in [from, from + range); range 0 means all 2^64.
Tensor integers(const Tensor& like, const Philox& philox, int64_t from, uint64_t range) {
  const auto start = static_cast<uint64_t>(from);
  if (range != 0 && range <= uint64_t{1} << 32) {
    return sample<int64_t, 4>(like, philox, [=](const Philox::Block& words, auto& values) {
      std::transform(words.begin(), words.end(), values.begin(), [=](uint32_t word) {
        return static_cast<int64_t>(start + word % range);
      });
    });
  }
  return sample<int64_t, 2>(like, philox, [=](const Philox::Block& words, auto& values) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t word = static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
      values[i] = static_cast<int64_t>(start + (range == 0 ? word : word % range));
    }
  });
}

int64_t valueOf(const Tensor& tensor) { return tensor.item().to<int64_t>(); }

void expectCounter(const char* name, const Tensor& tensor) {
  if (tensor.numel() != 1) {
    refuse(std::string(name) + " must have one element, got " + std::to_string(tensor.numel()));
  }
}

void expectProbability(const char* name, double value) {
  if (!(value >= 0 && value <= 1)) {
    refuse(std::string(name) + " is " + std::to_string(value) + ", expected a value in [0, 1]");
  }
}

void fillNormal(const Tensor& self, double mean, double std, const Philox& philox) {
  const Tensor values = standardNormal(self, philox);
  self.copy_(values.mul_(std).add_(mean));
}

void fillUniform(const Tensor& self, double from, double to, const Philox& philox) {
  Tensor values = uniform(self, philox).mul_(to - from).add_(from);
  // Rounding to the type of the result may reach `to`, which is not part of the range.
  if (to > from) {
    const Tensor converted = values.to(self.scalar_type());
    self.copy_(converted.masked_fill(converted.ge(to), from));
  } else {
    self.copy_(values);
  }
}

// [0, 2^digits) for floating types, [0, largest] for integers, as random_() of PyTorch gives.
uint64_t defaultRange(ScalarType type) {
  switch (type) {
    case at::kBool: return 2;
    case at::kByte: return uint64_t{1} << 8;
    case at::kChar: return uint64_t{1} << 7;
    case at::kShort: return uint64_t{1} << 15;
    case at::kInt: return uint64_t{1} << 31;
    case at::kLong: return uint64_t{1} << 63;
    case at::kHalf: return (uint64_t{1} << 11) + 1;
    case at::kBFloat16: return (uint64_t{1} << 8) + 1;
    case at::kFloat: return (uint64_t{1} << 24) + 1;
    case at::kDouble: return (uint64_t{1} << 53) + 1;
    default: refuse(std::string("no random numbers of type ") + c10::toString(type));
  }
}

uint64_t expectRange(int64_t from, int64_t to) {
  if (from >= to) {
    refuse(
        "from is " + std::to_string(from) + " and to is " + std::to_string(to) +
        ", expected from < to");
  }
  return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
}

}  // namespace

Work InplaceNormal(Tensor selfRef, float mean, float std, int64_t seed, int64_t offset) {
  if (std < 0) {
    refuse("std is " + std::to_string(std) + ", expected at least 0");
  }
  return [=] { fillNormal(selfRef, mean, std, Philox(seed, offset)); };
}
Work InplaceNormalTensor(
    Tensor selfRef, float mean, float std, Tensor seedTensor, Tensor offsetTensor, int64_t offset) {
  expectCounter("seedTensor", seedTensor);
  expectCounter("offsetTensor", offsetTensor);
  return [=] {
    fillNormal(
        selfRef, mean, std, Philox(valueOf(seedTensor), valueOf(offsetTensor) + offset));
  };
}

Work NormalFloatFloat(float mean, float std, int64_t seed, int64_t offset, Tensor out) {
  return InplaceNormal(out, mean, std, seed, offset);
}
Work NormalTensorFloat(Tensor mean, float std, int64_t seed, int64_t offset, Tensor out) {
  expectSameSizes("out", out, "mean", mean);
  return [=] { out.copy_(standardNormal(out, Philox(seed, offset)).mul_(std).add_(mean)); };
}
Work NormalFloatTensor(float mean, Tensor std, int64_t seed, int64_t offset, Tensor out) {
  expectSameSizes("out", out, "std", std);
  return [=] { out.copy_(standardNormal(out, Philox(seed, offset)).mul_(std).add_(mean)); };
}
Work NormalTensorTensor(Tensor mean, Tensor std, int64_t seed, int64_t offset, Tensor out) {
  expectSizes("out", out, broadcastSizes(mean.sizes(), std.sizes()));
  return [=] { out.copy_(standardNormal(out, Philox(seed, offset)).mul_(std).add_(mean)); };
}

Work InplaceUniform(Tensor selfRef, double from, double to, uint64_t seed, uint64_t offset) {
  if (from > to) {
    refuse("from is " + std::to_string(from) + ", more than to, " + std::to_string(to));
  }
  const Philox philox(static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return [=] { fillUniform(selfRef, from, to, philox); };
}
Work InplaceUniformTensor(
    Tensor selfRef, double from, double to, Tensor seedTensor, Tensor offsetTensor,
    uint64_t offset) {
  expectCounter("seedTensor", seedTensor);
  expectCounter("offsetTensor", offsetTensor);
  return [=] {
    const int64_t start = valueOf(offsetTensor) + static_cast<int64_t>(offset);
    fillUniform(selfRef, from, to, Philox(valueOf(seedTensor), start));
  };
}

// [from, to)
Work InplaceRandom(Tensor selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  const uint64_t range = expectRange(from, to);
  return [=] { selfRef.copy_(integers(selfRef, Philox(seed, offset), from, range)); };
}
Work InplaceRandomTensor(
    Tensor selfRef, int64_t from, int64_t to, Tensor seedTensor, Tensor offsetTensor,
    int64_t offset) {
  const uint64_t range = expectRange(from, to);
  expectCounter("seedTensor", seedTensor);
  expectCounter("offsetTensor", offsetTensor);
  return [=] {
    const Philox philox(valueOf(seedTensor), valueOf(offsetTensor) + offset);
    selfRef.copy_(integers(selfRef, philox, from, range));
  };
}

Work InplaceRandomWithoutFromTo(Tensor selfRef, int64_t seed, int64_t offset) {
  const uint64_t range = defaultRange(selfRef.scalar_type());
  return [=] { selfRef.copy_(integers(selfRef, Philox(seed, offset), 0, range)); };
}
Work InplaceRandomWithoutFromToTensor(
    Tensor selfRef, Tensor seedTensor, Tensor offsetTensor, int64_t offset) {
  const uint64_t range = defaultRange(selfRef.scalar_type());
  expectCounter("seedTensor", seedTensor);
  expectCounter("offsetTensor", offsetTensor);
  return [=] {
    const Philox philox(valueOf(seedTensor), valueOf(offsetTensor) + offset);
    selfRef.copy_(integers(selfRef, philox, 0, range));
  };
}

Work InplaceBernoulli(Tensor selfRef, Scalar prob, int64_t seed, int64_t offset) {
  const double p = prob.to<double>();
  expectProbability("prob", p);
  return [=] { selfRef.copy_(uniform(selfRef, Philox(seed, offset)).lt(p)); };
}
Work InplaceBernoulliTensor(Tensor selfRef, Tensor prob, int64_t seed, int64_t offset) {
  expectSizes("prob, once broadcast,", selfRef, broadcastSizes(prob.sizes(), selfRef.sizes()));
  return [=] {
    TORCH_CHECK(
        prob.numel() == 0 || (prob.ge(0).logical_and(prob.le(1))).all().item<bool>(),
        "prob must lie in [0, 1]");
    selfRef.copy_(uniform(selfRef, Philox(seed, offset)).lt(prob));
  };
}

// Sorting by 63 random bits, ties by index.
Work Randperm(int64_t n, int64_t seed, int64_t offset, Tensor out) {
  if (n < 0) {
    refuse("n is " + std::to_string(n) + ", expected at least 0");
  }
  expectSizes("out", out, {n});
  return [=] {
    const Tensor keys = integers(out, Philox(seed, offset), 0, uint64_t{1} << 63);
    const auto order = at::sort(keys, std::optional<bool>(true), 0, /*descending=*/false);
    out.copy_(std::get<1>(order));
  };
}

// With rate lambda: -log(1 - u) / lambda.
Work SimThreadExponential(
    Tensor selfRef, int64_t count, double lambda, int64_t seed, int64_t offset) {
  if (count != selfRef.numel()) {
    refuse("count is " + std::to_string(count) + ", selfRef has " +
           std::to_string(selfRef.numel()) + " elements");
  }
  if (!(lambda > 0)) {
    refuse("lambda is " + std::to_string(lambda) + ", expected more than 0");
  }
  return [=] {
    selfRef.copy_(uniform(selfRef, Philox(seed, offset)).neg_().log1p_().mul_(-1 / lambda));
  };
}

namespace {

// Masks of dropout have one bit an element, the lowest bit of a byte first, in whole 128-bit words.
constexpr int64_t kMaskBits = 128;

int64_t maskBytes(int64_t elements) {
  return (elements + kMaskBits - 1) / kMaskBits * kMaskBits / 8;
}

int64_t elementsOf(const Ints& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0) {
      refuse("shape has a negative entry");
    }
    elements *= size;
  }
  return elements;
}

void expectMask(const char* name, const Tensor& mask, int64_t elements) {
  if (mask.numel() < maskBytes(elements)) {
    refuse(
        std::string(name) + " has " + std::to_string(mask.numel()) + " bytes, expected " +
        std::to_string(maskBytes(elements)) + " for " + std::to_string(elements) + " elements");
  }
  expectType(name, mask, at::kByte);
}

// Drops with probability `prob`: bit 1 stays.
void writeMask(const Tensor& mask, int64_t elements, double prob, const Philox& philox) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  generate<float, 4>(
      values.data(), elements, philox, [](const Philox::Block& words, auto& group) {
        std::transform(words.begin(), words.end(), group.begin(), unitFloat);
      });
  Tensor bytes = at::empty({mask.numel()}, mask.options()).zero_();
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  const auto dropped = static_cast<float>(prob);
  for (int64_t i = 0; i < elements; ++i) {
    data[i / 8] |= static_cast<uint8_t>((values[i] >= dropped) << (i % 8));
  }
  mask.copy_(bytes.reshape(mask.sizes()));
}

Tensor readMask(const Tensor& mask, IntArrayRef sizes) {
  Tensor kept = at::empty(sizes, mask.options().dtype(at::kBool));
  const Tensor bytes = mask.contiguous();
  const auto* data = bytes.const_data_ptr<uint8_t>();
  auto* out = kept.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < kept.numel(); ++i) {
    out[i] = (data[i / 8] >> (i % 8) & 1) != 0;
  }
  return kept;
}

// 1 / (1 - prob), where dropping everything gives 0.
double keptScale(double prob) { return prob >= 1 ? 0.0 : 1.0 / (1.0 - prob); }

}  // namespace

Work DropoutGenMask(Ints shape, double prob, int64_t seed, int64_t offset, Tensor out) {
  expectProbability("prob", prob);
  const int64_t elements = elementsOf(shape);
  expectMask("out", out, elements);
  return [=] { writeMask(out, elements, prob, Philox(seed, offset)); };
}
Work DropoutGenMaskV2(
    Ints shape, double prob, int64_t seed, int64_t offset, ScalarType /*probDataType*/,
    Tensor out) {
  return DropoutGenMask(shape, prob, seed, offset, out);
}
Work DropoutGenMaskV2Tensor(
    Ints shape, double prob, Tensor seedTensor, Tensor offsetTensor, int64_t offset,
    ScalarType /*probDataType*/, Tensor out) {
  expectProbability("prob", prob);
  expectCounter("seedTensor", seedTensor);
  expectCounter("offsetTensor", offsetTensor);
  const int64_t elements = elementsOf(shape);
  expectMask("out", out, elements);
  return [=] {
    writeMask(
        out, elements, prob, Philox(valueOf(seedTensor), valueOf(offsetTensor) + offset));
  };
}

Work DropoutDoMask(Tensor self, Tensor mask, double prob, Tensor out) {
  expectProbability("prob", prob);
  expectSameSizes("out", out, "self", self);
  expectMask("mask", mask, self.numel());
  return [=] {
    out.copy_(at::mul(self, readMask(mask, self.sizes())).mul_(keptScale(prob)));
  };
}

Work DropoutV3(
    Tensor input, OptionalTensor optionalNoiseShape, double p, int64_t seed, int64_t offset,
    Tensor out, Tensor maskOut) {
  expectProbability("p", p);
  if (optionalNoiseShape) {
    refuse("optionalNoiseShape is not supported by the emulator");
  }
  expectSameSizes("out", out, "input", input);
  expectMask("maskOut", maskOut, input.numel());
  return [=] {
    writeMask(maskOut, input.numel(), p, Philox(seed, offset));
    out.copy_(at::mul(input, readMask(maskOut, input.sizes())).mul_(keptScale(p)));
  };
}
// scale is 1 / (1 - p).
Work DropoutV3Grad(Tensor gradY, Tensor mask, double scale, Tensor gradX) {
  expectSameSizes("gradX", gradX, "gradY", gradY);
  expectMask("mask", mask, gradY.numel());
  return [=] { gradX.copy_(at::mul(gradY, readMask(mask, gradY.sizes())).mul_(scale)); };
}

Work MaskedScale(Tensor self, Tensor mask, float scale, Tensor out) {
  expectSameSizes("out", out, "self", self);
  expectSameSizes("mask", mask, "self", self);
  return [=] { out.copy_(at::mul(self, mask).mul_(scale)); };
}

}  // namespace npu_emulator::ops
