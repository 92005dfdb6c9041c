// One typed, lazily resolved function of CANN. The only place where an address becomes a function.
#pragma once

#include <atomic>
#include <string>
#include <type_traits>

#include "cann/Error.h"
#include "cann/Library.h"

namespace torch_npu::cann {

template <class F>
class Symbol;

template <class R, class... Args>
class Symbol<R(Args...)> {
 public:
  using Pointer = R (*)(Args...);

  // The looked-up name is `name` followed by `suffix`.
  constexpr Symbol(const char* name, Lib lib, const char* suffix = "") noexcept
      : name_(name), suffix_(suffix), lib_(lib) {}
  Symbol(const Symbol&) = delete;
  Symbol& operator=(const Symbol&) = delete;

  // Calls and returns what the function returns. Throws only if the function does not exist.
  R operator()(Args... args) const { return pointer()(args...); }

  // Calls and throws by meaning: on a status code that is not success, on a null result.
  R check(Args... args) const {
    if constexpr (std::is_void_v<R>) {
      pointer()(args...);
    } else {
      R result = pointer()(args...);
      if constexpr (std::is_same_v<R, HcclResult>) {
        if (result != HCCL_SUCCESS) [[unlikely]]
          throwHcclError(name().c_str(), result);
      } else if constexpr (std::is_pointer_v<R>) {
        if (result == nullptr) [[unlikely]]
          throwError(name().c_str(), ACL_ERROR_FAILURE, "it returned null");
      } else {
        static_assert(std::is_same_v<R, int>, "check() knows status codes and pointers only");
        if (result != ACL_SUCCESS) [[unlikely]]
          throwError(name().c_str(), result);
      }
      return result;
    }
  }

  // Whether this CANN has the function. Throws only if no CANN can be loaded.
  bool available() const {
    void* address = address_.load(std::memory_order_acquire);
    if (address == nullptr) {
      address = findSymbol(lib_, name().c_str());
      address_.store(address != nullptr ? address : absent(), std::memory_order_release);
    }
    return address != nullptr && address != absent();
  }

  std::string name() const { return std::string(name_) + suffix_; }
  Lib library() const noexcept { return lib_; }

  Pointer pointer() const {
    void* address = address_.load(std::memory_order_acquire);
    if (address == nullptr || address == absent()) [[unlikely]] {
      address = requireSymbol(lib_, name().c_str());
      address_.store(address, std::memory_order_release);
    }
    return reinterpret_cast<Pointer>(address);
  }

 private:
  // Remembers "looked up, not there": an address that no function has.
  static void* absent() noexcept { return const_cast<char*>(&kAbsent); }
  static constexpr char kAbsent = 0;

  const char* name_;
  const char* suffix_;
  Lib lib_;
  mutable std::atomic<void*> address_{nullptr};
};

}  // namespace torch_npu::cann
