// The two-phase aclnn call as one typed function:
//
//   launch(cann::aclnnAdd, self, other, alpha, out);
//
// The C signature of the operator decides what each argument becomes; a wrong count or kind of
// argument does not compile. Tensors must be on the current device (see OnDevice), and the work
// goes to the current stream. Undefined tensors and nullopt are passed as null pointers.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "aten/Descriptor.h"
#include "aten/Workspace.h"
#include "runtime/Device.h"
#include "runtime/Stream.h"

namespace torch_npu::aten {

// Makes an NPU current for as long as it lives; other devices change nothing. Neither CANN nor the
// dispatcher does so for a kernel. Costs one comparison when the device is current already.
class OnDevice {
 public:
  explicit OnDevice(c10::Device device) {
    if (device.type() == c10::DeviceType::PrivateUse1 && device.index() != currentDevice()) {
      previous_ = exchangeDevice(device.index());
    }
  }
  explicit OnDevice(const at::Tensor& tensor)
      : OnDevice(tensor.defined() ? tensor.device() : c10::Device(c10::DeviceType::CPU)) {}
  ~OnDevice() {
    if (previous_ >= 0) {
      uncheckedSetDevice(previous_);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int previous_ = -1;
};

using ViewShape = c10::SmallVector<int64_t, 6>;
ViewShape viewShape(const aclTensor* tensor);

enum class Phase { Plan, Run, Finish };

// Whether every operator is waited for (ASCEND_LAUNCH_BLOCKING=1), and the waiting: a status code.
bool launchesBlock();
int finishStream(aclrtStream stream);

[[noreturn]] void throwLaunchError(
    const char* operatorName, Phase phase, int code, const std::string& arguments);

template <class Plan, class Indices>
class LaunchTask;

// One call with all it needs.
template <class... Params, size_t... I>
class LaunchTask<aclnnStatus(Params...), std::index_sequence<I...>> {
  template <size_t N>
  using Parameter = std::tuple_element_t<N, std::tuple<Params...>>;
  using Operator = cann::Operator<aclnnStatus(Params...)>;

 public:
  template <class... Args>
  LaunchTask(Operator& op, c10::DeviceIndex device, const Args&... args)
      : op_(&op), arguments_(Argument<Parameter<I>>(args, device)...) {}

  void run(const NPUStream& stream) const {
    runWith(stream, std::make_tuple(std::get<I>(arguments_).create()...));
  }

  // Waits for the call and returns the shape that it gave to its N-th argument, a tensor that was
  // passed at its largest size.
  template <size_t N>
  ViewShape runForShape(const NPUStream& stream) const {
    const auto handles = std::make_tuple(std::get<I>(arguments_).create()...);
    runWith(stream, handles);
    stream.synchronize();
    return viewShape(std::get<N>(handles).get());
  }

 private:
  template <class Handles>
  void runWith(const NPUStream& stream, const Handles& handles) const {
    const aclrtStream handle = stream.handle();  // first: makes the device's context current
    uint64_t workspaceBytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus planned =
        op_->plan(std::get<I>(handles).get()..., &workspaceBytes, &executor);
    if (planned != 0) [[unlikely]] {
      fail(Phase::Plan, planned);
    }
    const Workspace workspace(workspaceBytes, stream);
    const aclnnStatus started = op_->run(workspace.get(), workspaceBytes, executor, handle);
    if (started != 0) [[unlikely]] {
      fail(Phase::Run, started);
    }
    if (launchesBlock()) [[unlikely]] {
      const int finished = finishStream(handle);
      if (finished != 0) {
        fail(Phase::Finish, finished);
      }
    }
  }

  [[noreturn, gnu::noinline, gnu::cold]] void fail(Phase phase, int code) const {
    std::string text;
    ((text += I == 0 ? "" : ", ", std::get<I>(arguments_).describe(text)), ...);
    throwLaunchError(op_->name, phase, code, text);
  }

  Operator* op_;
  std::tuple<Argument<Parameter<I>>...> arguments_;
};

template <class... Params, class... Args>
void launch(cann::Operator<aclnnStatus(Params...)>& op, const Args&... args) {
  static_assert(
      sizeof...(Args) + 2 == sizeof...(Params),
      "wrong number of arguments for this aclnn operator (see csrc/cann/facts/aclnn_functions.tsv)");
  using Task = LaunchTask<aclnnStatus(Params...), std::make_index_sequence<sizeof...(Args)>>;
  const NPUStream stream = getCurrentStream();
  Task(op, static_cast<c10::DeviceIndex>(stream.deviceIndex()), args...).run(stream);
}

// For operators whose result's size depends on data: argument N is the result, as large as it can
// get; the returned shape is what it came to. Blocks the host.
template <size_t N, class... Params, class... Args>
ViewShape launchForShape(cann::Operator<aclnnStatus(Params...)>& op, const Args&... args) {
  static_assert(sizeof...(Args) + 2 == sizeof...(Params));
  using Task = LaunchTask<aclnnStatus(Params...), std::make_index_sequence<sizeof...(Args)>>;
  const NPUStream stream = getCurrentStream();
  return Task(op, static_cast<c10::DeviceIndex>(stream.deviceIndex()), args...)
      .template runForShape<N>(stream);
}

}  // namespace torch_npu::aten
