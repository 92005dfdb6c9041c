#include "aten/Fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/Copy.h"
#include "aten/Factory.h"
#include "aten/Launch.h"
#include "aten/Random.h"
#include "cann/Env.h"

// Note [CPU fallback]
// An operator without an npu kernel is called again with every npu tensor replaced by a host copy.
// To be right, not only to return something:
//   - arguments that the schema marks as written, and those that the operator writes without saying
//     so (writesUnmarked), are copied back, resized if the CPU kernel resized them;
//   - one tensor given twice is one host copy, so aliasing between arguments stays what it was;
//   - a view operator would return a copy, to which writes are lost: it is an error;
//   - tensors of different devices are the error that they are without the fallback;
//   - random operators draw from the npu generator (hostGenerator);
//   - autograd, autocast and view tracking are off while the CPU kernel runs: they have been dealt
//     with for the npu tensors.
namespace torch_npu::aten {
namespace {

struct Counters {
  std::mutex mutex;  // guards counts and warned; nothing is called while it is held
  std::map<std::string, uint64_t> counts;
  std::map<std::string, bool> warned;
};

Counters& counters() {
  static auto* const instance = new Counters;  // outlives every thread that may still compute
  return *instance;
}

bool isNpu(const at::Tensor& tensor) {
  return tensor.device().type() == c10::DeviceType::PrivateUse1;
}

bool isWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Training-mode batch norm updates the running statistics in place; these two schemas do not say
// so.
bool writesUnmarked(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  if (argument.name() != "running_mean" && argument.name() != "running_var") {
    return false;
  }
  return schema.name() == "aten::native_batch_norm" ||
      schema.name() == "aten::batch_norm_update_stats";
}

// Calls visit(tensor) for every tensor in the value, undefined ones too.
template <class Visit>
void forEachTensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor.has_value()) {
        visit(*tensor);
      }
    }
  }
}

// The value with every tensor replaced by map(tensor); other values as they are.
template <class Map>
c10::IValue mapTensors(const c10::IValue& value, const Map& map) {
  if (value.isTensor()) {
    return map(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      mapped.push_back(map(tensor));
    }
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(tensor.has_value() ? std::optional<at::Tensor>(map(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  return value;
}

// Operators that draw from the CPU's default generator without taking one: reseeded from the npu's
// for the call, then put back. (Other threads drawing from it meanwhile see the other sequence.)
class DefaultGeneratorScope {
 public:
  explicit DefaultGeneratorScope(c10::Device device)
      : generator_(at::detail::getDefaultCPUGenerator()) {
    const at::Generator source = hostGenerator(std::nullopt, device);
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    saved_ = generator_.get_state();
    generator_.set_state(source.get_state());
  }
  ~DefaultGeneratorScope() {
    try {
      const std::lock_guard<std::mutex> lock(generator_.mutex());
      generator_.set_state(saved_);
    } catch (const std::exception& error) {
      TORCH_WARN("torch_npu: the CPU's random state could not be restored: ", error.what());
    }
  }
  DefaultGeneratorScope(const DefaultGeneratorScope&) = delete;
  DefaultGeneratorScope& operator=(const DefaultGeneratorScope&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
};

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        name_(c10::toString(op.operator_name())),
        arguments_(
            stack->end() - static_cast<std::ptrdiff_t>(schema_.arguments().size()), stack->end()) {}

  void run() {
    checkSupported();
    findDevice();
    checkGenerators();
    noteFallback(name_);
    const OnDevice scope(device_);
    moveArguments();
    callOnHost();
    writeBack();
    moveResults();
  }

 private:
  void checkSupported() const {
    for (const c10::Argument& result : schema_.returns()) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          result.alias_info() == nullptr || result.alias_info()->isWrite(), name_,
          " returns a view of its argument and has no npu kernel. Running it on the CPU would "
          "return a copy instead, and writes to it would be lost: call it on a CPU tensor "
          "(.cpu()).");
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        !op_.hasTag(at::Tag::inplace_view), name_,
        " changes the shape of its argument in place and has no npu kernel.");
    TORCH_CHECK_NOT_IMPLEMENTED(
        op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name_,
        " has neither an npu kernel nor a CPU kernel that could stand in for it.");
  }

  [[noreturn]] void failMismatch(const c10::Argument& argument, c10::Device device) const {
    TORCH_CHECK(
        false, "Expected all tensors to be on the same device, but found at least two devices, ",
        device_, " and ", device, "! (argument '", argument.name(), "' of ", name_, " is on ",
        device, "; move it with .to('", device_, "'))");
  }

  // The device is that of the npu tensors, else that of a device or generator argument.
  void findDevice() {
    bool found = false;
    for (const c10::IValue& value : arguments_) {
      forEachTensor(value, [&](const at::Tensor& tensor) {
        if (tensor.defined() && isNpu(tensor) && !found) {
          device_ = tensor.device();
          found = true;
        }
      });
    }
    hasTensors_ = found;
    for (const c10::IValue& value : arguments_) {
      if (!found && value.isDevice() &&
          value.toDevice().type() == c10::DeviceType::PrivateUse1) {
        device_ = {c10::DeviceType::PrivateUse1,
                   static_cast<c10::DeviceIndex>(checkedDevice(value.toDevice().index()))};
        found = true;
      }
    }
    if (!found) {
      device_ = {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(currentDevice())};
    }
    if (!hasTensors_) {
      return;
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      // As on other devices: numbers in 0-dimensional CPU tensors, and indices, may be on the CPU.
      const bool isIndices = arguments_[i].isOptionalTensorList();
      forEachTensor(arguments_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined() || tensor.device() == device_) {
          return;
        }
        const bool mayBeHost = isIndices || (tensor.dim() == 0 && !isWritten(argument));
        if (!tensor.is_cpu() || !mayBeHost) {
          failMismatch(argument, tensor.device());
        }
      });
    }
  }

  void checkGenerators() const {
    for (const c10::IValue& value : arguments_) {
      if (value.isGenerator() && value.toGenerator().defined()) {
        const c10::Device device = value.toGenerator().device();
        bool onlyHost = !hasTensors_;
        bool any = false;
        for (const c10::IValue& other : arguments_) {
          forEachTensor(other, [&](const at::Tensor& tensor) { any = any || tensor.defined(); });
        }
        TORCH_CHECK(
            !(onlyHost && any), "Expected a 'cpu' device type for generator but found '",
            device.type(), "' (", name_, ")");
      }
    }
  }

  at::Tensor hostCopy(const at::Tensor& tensor) {
    if (!tensor.defined() || !isNpu(tensor)) {
      return tensor;
    }
    for (const auto& [original, copy] : copies_) {
      if (original.is_same(tensor)) {
        return copy;
      }
    }
    copies_.emplace_back(tensor, toHost(tensor));
    return copies_.back().second;
  }

  void moveArguments() {
    const size_t first = stack_->size() - arguments_.size();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::IValue& value = arguments_[i];
      c10::IValue& moved = (*stack_)[first + i];
      if (value.isDevice()) {
        moved = c10::Device(c10::DeviceType::CPU);
      } else if (value.isGenerator()) {
        moved = hostGenerator(value.toGenerator(), device_);
        hasGenerator_ = true;
      } else if (value.isNone() && schema_.arguments()[i].name() == "generator") {
        moved = hostGenerator(std::nullopt, device_);
        hasGenerator_ = true;
      } else {
        moved = mapTensors(value, [&](const at::Tensor& tensor) { return hostCopy(tensor); });
      }
    }
  }

  void callOnHost() {
    std::optional<DefaultGeneratorScope> seeded;
    if (!hasGenerator_ && op_.hasTag(at::Tag::nondeterministic_seeded)) {
      seeded.emplace(device_);
    }
    const HostKernelScope scope;
    op_.callBoxed(stack_);
  }

  void writeBack() {
    std::vector<const c10::TensorImpl*> done;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      if (!isWritten(argument) && !writesUnmarked(schema_, argument)) {
        continue;
      }
      forEachTensor(arguments_[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !isNpu(tensor)) {
          return;
        }
        for (const c10::TensorImpl* impl : done) {
          if (impl == tensor.unsafeGetTensorImpl()) {
            return;
          }
        }
        done.push_back(tensor.unsafeGetTensorImpl());
        copyBack(tensor, hostCopy(tensor));
      });
    }
  }

  static void copyBack(const at::Tensor& tensor, const at::Tensor& host) {
    if (tensor.sizes() != host.sizes()) {  // an out argument that the CPU kernel resized
      resize_(tensor, host.sizes(), std::nullopt);
      if (host.is_non_overlapping_and_dense()) {
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
      }
    }
    copyTensor(tensor, host, /*nonBlocking=*/false);
  }

  void moveResults() {
    const size_t first = stack_->size() - schema_.returns().size();
    for (size_t i = 0; i < schema_.returns().size(); ++i) {
      c10::IValue& value = (*stack_)[first + i];
      const c10::Argument& result = schema_.returns()[i];
      if (isWritten(result)) {
        value = originalOf(result);
        continue;
      }
      value = mapTensors(value, [&](const at::Tensor& tensor) {
        return tensor.defined() && tensor.is_cpu() ? toDevice(tensor, device_) : tensor;
      });
    }
  }

  // The argument that an in-place or out= operator returns.
  const c10::IValue& originalOf(const c10::Argument& result) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::AliasInfo* info = schema_.arguments()[i].alias_info();
      if (info != nullptr && info->isWrite() &&
          info->beforeSets() == result.alias_info()->beforeSets()) {
        return arguments_[i];
      }
    }
    TORCH_INTERNAL_ASSERT(false, name_, " returns an argument that its schema does not name");
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  std::string name_;
  std::vector<c10::IValue> arguments_;  // as given
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // npu tensor, its host copy
  c10::Device device_{c10::DeviceType::PrivateUse1, 0};
  bool hasTensors_ = false;    // any on npu
  bool hasGenerator_ = false;  // the operator takes one
};

}  // namespace

void noteFallback(const std::string& operatorName) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !cann::env::flag("TORCH_NPU_FALLBACK_CPU_DISABLE"), operatorName,
      " has no npu kernel, and TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids running it on the CPU. "
      "Unset the variable, or call the operator on CPU tensors.");
  bool first = false;
  {
    Counters& all = counters();
    const std::lock_guard<std::mutex> lock(all.mutex);
    ++all.counts[operatorName];
    first = !std::exchange(all.warned[operatorName], true);
  }
  if (first && !cann::env::flag("TORCH_NPU_WARNING_DISABLE")) {
    TORCH_WARN(
        operatorName,
        " has no npu kernel and runs on the CPU: the result is right, but every call waits for the "
        "device and copies. torch_npu.npu.utils.cpu_fallback_counts() lists all such calls; "
        "TORCH_NPU_FALLBACK_CPU_DISABLE=1 turns them into errors.");
  }
}

std::map<std::string, uint64_t> fallbackCounts() {
  Counters& all = counters();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.counts;
}

void resetFallbackCounts() {
  Counters& all = counters();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.counts.clear();
}

HostKernelScope::HostKernelScope()
    : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset) {}

void cpuFallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  HostCall(op, stack).run();
}

}  // namespace torch_npu::aten
