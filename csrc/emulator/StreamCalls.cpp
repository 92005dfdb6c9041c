// The ABI's functions on streams.
#include <algorithm>
#include <string>

#include "emulator/Error.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

using namespace npu_emulator;

namespace {

std::chrono::nanoseconds fromMilliseconds(int32_t timeout) {
  return timeout < 0 ? Stream::kForever : std::chrono::milliseconds(timeout);
}

// Runs `body` with the stream behind the handle.
template <class Body>
aclError withStream(aclrtStream handle, Body body) {
  auto stream = findStream(handle);
  if (stream == nullptr) {
    return streamErrorCode(handle);
  }
  return body(*stream);
}

aclError badArgument(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  return call("aclrtCreateStream", [&] { return createStream(stream, 0, 0, "aclrtCreateStream"); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return call("aclrtCreateStreamWithConfig", [&]() -> aclError {
    constexpr uint32_t kLowestPriority = 7;  // 0 is the highest
    if (priority > kLowestPriority) {
      return badArgument(
          "aclrtCreateStreamWithConfig",
          "priority " + std::to_string(priority) + " is not in 0 (highest) to 7 (lowest)");
    }
    return createStream(stream, priority, flag, "aclrtCreateStreamWithConfig");
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return call(
      "aclrtDestroyStream", [&] { return destroyStream(stream, false, "aclrtDestroyStream"); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return call("aclrtDestroyStreamForce", [&] {
    return destroyStream(stream, true, "aclrtDestroyStreamForce");
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return call("aclrtSynchronizeStream", [&] {
    return withStream(stream, [](Stream& s) { return s.synchronize(); });
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return call("aclrtSynchronizeStreamWithTimeout", [&] {
    return withStream(
        stream, [&](Stream& s) { return s.synchronize(fromMilliseconds(timeout)); });
  });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return call("aclrtSynchronizeDeviceWithTimeout", [&]() -> aclError {
    Context* context = currentContext();
    return context == nullptr
        ? ACL_ERROR_RT_CONTEXT_NULL
        : synchronizeDevice(context->device->index(), fromMilliseconds(timeout));
  });
}

aclError aclrtSynchronizeDevice() {
  return call("aclrtSynchronizeDevice", [&]() -> aclError {
    Context* context = currentContext();
    return context == nullptr ? ACL_ERROR_RT_CONTEXT_NULL
                              : synchronizeDevice(context->device->index());
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return call("aclrtStreamQuery", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      if (status == nullptr) {
        return badArgument("aclrtStreamQuery", "the status pointer is null");
      }
      *status = s.isDone(s.lastTicket()) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
      return s.reportError();
    });
  });
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  return call("aclrtStreamGetId", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      if (streamId == nullptr) {
        return badArgument("aclrtStreamGetId", "the id pointer is null");
      }
      *streamId = s.id();
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return call("aclrtSetStreamFailureMode", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      if (mode > 1) {
        return badArgument("aclrtSetStreamFailureMode", "mode must be 0 (continue) or 1 (stop)");
      }
      s.failureMode.store(mode);
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtSetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value) {
  return call("aclrtSetStreamAttribute", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      if (value == nullptr) {
        return badArgument("aclrtSetStreamAttribute", "the value pointer is null");
      }
      switch (stmAttrType) {
        case ACL_STREAM_ATTR_FAILURE_MODE:
          s.failureMode.store(value->failureMode);
          return ACL_SUCCESS;
        case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
          s.overflowSwitch.store(value->overflowSwitch);
          return ACL_SUCCESS;
        case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
          s.customTag.store(value->userCustomTag);
          return ACL_SUCCESS;
        case ACL_STREAM_ATTR_CACHE_OP_INFO:
          s.cacheOpInfo.store(value->cacheOpInfoSwitch);
          return ACL_SUCCESS;
        case ACL_STREAM_ATTR_PRIORITY:
          break;
      }
      return badArgument(
          "aclrtSetStreamAttribute",
          "attribute " + std::to_string(stmAttrType) + " cannot be set on a stream");
    });
  });
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return call("aclrtSetStreamOverflowSwitch", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      s.overflowSwitch.store(flag);
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return call("aclrtGetStreamOverflowSwitch", [&] {
    return withStream(stream, [&](Stream& s) -> aclError {
      if (flag == nullptr) {
        return badArgument("aclrtGetStreamOverflowSwitch", "the flag pointer is null");
      }
      *flag = s.overflowSwitch.load();
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  return call("aclrtDeviceTaskAbort", [&]() -> aclError {
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtDeviceTaskAbort")) {
      return code;
    }
    if (isForkedChild()) {
      return forkedError();
    }
    const auto streams = streamsOf(deviceId);
    for (const auto& stream : streams) {
      stream->abort();
    }
    // 0 means no limit; a task that never looks at taskCancelled() would hold us for ever.
    const auto patience =
        timeout == 0 ? std::chrono::milliseconds(60'000) : std::chrono::milliseconds(timeout);
    const auto end = std::chrono::steady_clock::now() + patience;
    for (const auto& stream : streams) {
      const auto left = std::max(
          end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration{0});
      if (!stream->waitFor(stream->lastTicket(), left)) {
        return fail(
            ACL_ERROR_RT_WAIT_TIMEOUT,
            "aclrtDeviceTaskAbort: a task on stream " + std::to_string(stream->id()) +
                " does not end");
      }
    }
    for (const auto& stream : streams) {
      stream->clearError();
      stream->revive();
    }
    return ACL_SUCCESS;
  });
}

}  // extern "C"
