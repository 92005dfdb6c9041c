#include "cann/Env.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace torch_npu::cann::env {
namespace {

std::string valueOf(const Variable& variable, Kind kind) {
  TORCH_INTERNAL_ASSERT(variable.kind == kind, "the table declares another kind for ",
                        variable.name);
  const char* value = std::getenv(variable.name.data());
  return std::string(value != nullptr && *value != '\0' ? std::string_view(value)
                                                        : variable.fallback);
}

[[noreturn]] void reject(const Variable& variable, const std::string& value,
                         const std::string& expected) {
  C10_THROW_ERROR(ValueError, c10::str("environment variable ", variable.name, ": expected ",
                                       expected, ", got '", value, "' (", variable.meaning, ")"));
}

}  // namespace

bool isSet(Name name) {
  const char* value = std::getenv(name.variable().name.data());
  return value != nullptr && *value != '\0';
}

bool flag(Name name) {
  const Variable& variable = name.variable();
  const std::string value = valueOf(variable, Kind::Flag);
  std::string lower = value;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "1" || lower == "true" || lower == "on" || lower == "yes") return true;
  if (lower == "0" || lower == "false" || lower == "off" || lower == "no") return false;
  reject(variable, value, "0 or 1");
}

int64_t integer(Name name, int64_t lowest, int64_t highest) {
  const Variable& variable = name.variable();
  const std::string value = valueOf(variable, Kind::Integer);
  int64_t result = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, result);
  if (error != std::errc() || stop != end) reject(variable, value, "an integer");
  if (result < lowest || result > highest) {
    const std::string bounds = highest == INT64_MAX
                                   ? c10::str("an integer of at least ", lowest)
                                   : c10::str("an integer from ", lowest, " to ", highest);
    reject(variable, value, bounds);
  }
  return result;
}

std::chrono::milliseconds seconds(Name name) {
  const Variable& variable = name.variable();
  const std::string value = valueOf(variable, Kind::Seconds);
  double result = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, result);
  // Past 10^9 s (30 years) the milliseconds that CANN takes as 32 bits are meaningless anyway.
  if (error != std::errc() || stop != end || !(result >= 0) || result > 1e9) {
    reject(variable, value, "seconds, from 0 to 1e9");
  }
  return std::chrono::milliseconds(std::llround(result * 1000));
}

std::string text(Name name) {
  return valueOf(name.variable(), Kind::Text);
}

}  // namespace torch_npu::cann::env
