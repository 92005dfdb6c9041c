#include "emulator/Reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

// The loops below are vectorised at -O3 only; g++ 12 leaves most of them scalar at -O2.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace npu_emulator::hccl {

namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

// Each format turns the bits of an element into float32 and a float32 back, to nearest even.

struct Half {
  using Bits = uint16_t;
  static float decode(Bits bits) {
    // Exponent and mantissa moved into place, then scaled by 2^112 (the difference of the biases):
    // right for subnormals too. Infinity and NaN get the full exponent.
    const uint32_t magnitude = uint32_t(bits & 0x7fffu) << 13;
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
    const uint32_t special = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(
        std::bit_cast<uint32_t>(scaled) | special | uint32_t(bits & 0x8000u) << 16);
  }
  static Bits encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    // Below 2^-14 the unit in the last place is 2^-24: adding 0.5 (whose last place is 2^-24) lets
    // the adder round, and its low bits are the result.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t small = std::bit_cast<uint32_t>(shifted) - 0x3f000000u;
    // Above: drop 13 bits, rounding half to even; 112 is the difference of the biases.
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    uint32_t result = magnitude < 0x38800000u ? small : normal;
    result = magnitude >= 0x47800000u ? 0x7c00u : result;  // from 65536 on: infinity
    result = magnitude > 0x7f800000u ? 0x7e00u : result;
    return static_cast<Bits>(result | (bits >> 16 & 0x8000u));
  }
};

struct BFloat16 {
  using Bits = uint16_t;
  static float decode(Bits bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
  static Bits encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<Bits>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
};

// An 8-bit float with `kExponent` exponent bits, through a table of its 256 values.
template <int kExponent, bool kHasInfinity>
struct Float8 {
  using Bits = uint8_t;
  static constexpr int kMantissa = 7 - kExponent;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;

  static float valueOf(unsigned bits) {
    const unsigned exponent = bits >> kMantissa & ((1u << kExponent) - 1);
    const unsigned mantissa = bits & ((1u << kMantissa) - 1);
    const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
    const bool top = exponent == (1u << kExponent) - 1;
    if (kHasInfinity && top) {
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
    }
    if (!kHasInfinity && top && mantissa == (1u << kMantissa) - 1) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    return exponent == 0
        ? sign * std::ldexp(float(mantissa), 1 - kBias - kMantissa)
        : sign * std::ldexp(float(mantissa | 1u << kMantissa), int(exponent) - kBias - kMantissa);
  }
  static float decode(Bits bits) {
    static const std::array<float, 256> table = [] {
      std::array<float, 256> values;
      for (unsigned i = 0; i < 256; ++i) {
        values[i] = valueOf(i);
      }
      return values;
    }();
    return table[bits];
  }
  static Bits encode(float value) {
    const unsigned sign = std::signbit(value) ? 0x80u : 0u;
    const unsigned notANumber = 0x7fu;
    // The first pattern after the largest finite number: infinity, or NaN where there is none.
    const unsigned overflow = kHasInfinity ? ((1u << kExponent) - 1) << kMantissa : notANumber;
    if (std::isnan(value)) {
      return static_cast<Bits>(sign | notANumber);
    }
    const float magnitude = std::fabs(value);
    if (magnitude == 0.0f || std::isinf(magnitude)) {
      return static_cast<Bits>(sign | (magnitude == 0.0f ? 0u : overflow));
    }
    // Units in the last place at this magnitude; nearbyint rounds half to even.
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int unit = std::max(exponent - 1, 1 - kBias) - kMantissa;
    const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, -unit)));
    // Patterns of positive numbers count up without gaps: one step of the exponent is 2^kMantissa
    // patterns, and a carry of the mantissa lands in the exponent by itself.
    const unsigned pattern =
        units + (unsigned(unit + kMantissa + kBias - 1) << kMantissa);
    return static_cast<Bits>(sign | std::min(pattern, overflow));
  }
};
using Float8E4M3 = Float8<4, false>;
using Float8E5M2 = Float8<5, true>;

// Powers of two, 2^(bits - 127); 255 is NaN.
struct Float8E8M0 {
  using Bits = uint8_t;
  static float decode(Bits bits) {
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
  }
  static Bits encode(float value) {
    return static_cast<Bits>(std::isnan(value) ? 255 : std::ilogb(value) + 127);
  }
};

// Integers add and multiply modulo 2^n, in the unsigned type (of at least int's width, so that the
// product of two uint16_t does not overflow int).
template <class T>
struct Unsigned {
  using Type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};
template <>
struct Unsigned<Int128> {
  using Type = UInt128;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      using U = typename Unsigned<T>::Type;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    }
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      using U = typename Unsigned<T>::Type;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
  }
};
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <class T, class Op>
void reduceNative(
    const std::byte* const* inputs, size_t inputCount, size_t bytes, std::byte* result) {
  const size_t count = bytes / sizeof(T);
  T* __restrict accumulator = reinterpret_cast<T*>(result);
  std::memcpy(result, inputs[0], bytes);
  for (size_t r = 1; r < inputCount; ++r) {
    const T* __restrict input = reinterpret_cast<const T*>(inputs[r]);
    for (size_t i = 0; i < count; ++i) {
      accumulator[i] = Op::apply(accumulator[i], input[i]);
    }
  }
}

template <class Format, class Op>
void reduceWidened(
    const std::byte* const* inputs, size_t inputCount, size_t bytes, std::byte* result) {
  using Bits = typename Format::Bits;
  const size_t count = bytes / sizeof(Bits);
  alignas(64) float accumulator[kReduceBlock / sizeof(Bits)];
  const Bits* first = reinterpret_cast<const Bits*>(inputs[0]);
  for (size_t i = 0; i < count; ++i) {
    accumulator[i] = Format::decode(first[i]);
  }
  for (size_t r = 1; r < inputCount; ++r) {
    const Bits* __restrict input = reinterpret_cast<const Bits*>(inputs[r]);
    for (size_t i = 0; i < count; ++i) {
      accumulator[i] = Op::apply(accumulator[i], Format::decode(input[i]));
    }
  }
  Bits* __restrict out = reinterpret_cast<Bits*>(result);
  for (size_t i = 0; i < count; ++i) {
    out[i] = Format::encode(accumulator[i]);
  }
}

using Kernel = void (*)(const std::byte* const*, size_t, size_t, std::byte*);

template <class Op>
Kernel kernelOf(uint32_t dataType) {
  switch (dataType) {
    case HCCL_DATA_TYPE_INT8:
      return reduceNative<int8_t, Op>;
    case HCCL_DATA_TYPE_INT16:
      return reduceNative<int16_t, Op>;
    case HCCL_DATA_TYPE_INT32:
      return reduceNative<int32_t, Op>;
    case HCCL_DATA_TYPE_INT64:
      return reduceNative<int64_t, Op>;
    case HCCL_DATA_TYPE_INT128:
      return reduceNative<Int128, Op>;
    case HCCL_DATA_TYPE_UINT8:
      return reduceNative<uint8_t, Op>;
    case HCCL_DATA_TYPE_UINT16:
      return reduceNative<uint16_t, Op>;
    case HCCL_DATA_TYPE_UINT32:
      return reduceNative<uint32_t, Op>;
    case HCCL_DATA_TYPE_UINT64:
      return reduceNative<uint64_t, Op>;
    case HCCL_DATA_TYPE_FP32:
      return reduceNative<float, Op>;
    case HCCL_DATA_TYPE_FP64:
      return reduceNative<double, Op>;
    case HCCL_DATA_TYPE_FP16:
      return reduceWidened<Half, Op>;
    case HCCL_DATA_TYPE_BFP16:
      return reduceWidened<BFloat16, Op>;
    case HCCL_DATA_TYPE_FP8E4M3:
      return reduceWidened<Float8E4M3, Op>;
    case HCCL_DATA_TYPE_FP8E5M2:
      return reduceWidened<Float8E5M2, Op>;
    case HCCL_DATA_TYPE_FP8E8M0:
      return reduceWidened<Float8E8M0, Op>;
    default:
      return nullptr;
  }
}

Kernel kernelOf(uint32_t dataType, uint32_t reduceOp) {
  switch (reduceOp) {
    case HCCL_REDUCE_SUM:
      return kernelOf<Sum>(dataType);
    case HCCL_REDUCE_PROD:
      return kernelOf<Product>(dataType);
    case HCCL_REDUCE_MAX:
      return kernelOf<Maximum>(dataType);
    case HCCL_REDUCE_MIN:
      return kernelOf<Minimum>(dataType);
    default:
      return nullptr;
  }
}

}  // namespace

size_t elementSize(uint32_t dataType) {
  switch (dataType) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0:
      return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16:
      return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32:
      return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64:
      return 8;
    case HCCL_DATA_TYPE_INT128:
      return 16;
    default:
      return 0;
  }
}

std::string dataTypeName(uint32_t dataType) {
  switch (dataType) {
    case HCCL_DATA_TYPE_INT8:
      return "INT8";
    case HCCL_DATA_TYPE_INT16:
      return "INT16";
    case HCCL_DATA_TYPE_INT32:
      return "INT32";
    case HCCL_DATA_TYPE_FP16:
      return "FP16";
    case HCCL_DATA_TYPE_FP32:
      return "FP32";
    case HCCL_DATA_TYPE_INT64:
      return "INT64";
    case HCCL_DATA_TYPE_UINT64:
      return "UINT64";
    case HCCL_DATA_TYPE_UINT8:
      return "UINT8";
    case HCCL_DATA_TYPE_UINT16:
      return "UINT16";
    case HCCL_DATA_TYPE_UINT32:
      return "UINT32";
    case HCCL_DATA_TYPE_FP64:
      return "FP64";
    case HCCL_DATA_TYPE_BFP16:
      return "BFP16";
    case HCCL_DATA_TYPE_INT128:
      return "INT128";
    case HCCL_DATA_TYPE_HIF8:
      return "HIF8";
    case HCCL_DATA_TYPE_FP8E4M3:
      return "FP8E4M3";
    case HCCL_DATA_TYPE_FP8E5M2:
      return "FP8E5M2";
    case HCCL_DATA_TYPE_FP8E8M0:
      return "FP8E8M0";
    default:
      return "data type " + std::to_string(dataType);
  }
}

std::string reduceOpName(uint32_t reduceOp) {
  switch (reduceOp) {
    case HCCL_REDUCE_SUM:
      return "SUM";
    case HCCL_REDUCE_PROD:
      return "PROD";
    case HCCL_REDUCE_MAX:
      return "MAX";
    case HCCL_REDUCE_MIN:
      return "MIN";
    default:
      return "reduce op " + std::to_string(reduceOp);
  }
}

std::string whyNotReducible(uint32_t dataType, uint32_t reduceOp) {
  if (reduceOp > HCCL_REDUCE_MIN) {
    return reduceOpName(reduceOp) + " is none of SUM (0), PROD (1), MAX (2), MIN (3)";
  }
  if (dataType == HCCL_DATA_TYPE_HIF8) {
    return "HIF8 has no arithmetic in the emulator; it can be copied (broadcast, gather, send)";
  }
  if (dataType == HCCL_DATA_TYPE_FP8E8M0 &&
      (reduceOp == HCCL_REDUCE_SUM || reduceOp == HCCL_REDUCE_PROD)) {
    return "FP8E8M0 holds powers of two, whose " + reduceOpName(reduceOp) +
        " it cannot hold in general; use MAX or MIN, or convert first";
  }
  return "";
}

void reduceBlock(
    uint32_t dataType, uint32_t reduceOp, const std::byte* const* inputs, size_t inputCount,
    size_t bytes, std::byte* result) {
  if (inputCount == 1) {  // without the detour through float32: NaN keeps its bits
    std::memcpy(result, inputs[0], bytes);
    return;
  }
  const Kernel kernel = kernelOf(dataType, reduceOp);
  assert(kernel != nullptr && bytes <= kReduceBlock);
  kernel(inputs, inputCount, bytes, result);
}

}  // namespace npu_emulator::hccl
