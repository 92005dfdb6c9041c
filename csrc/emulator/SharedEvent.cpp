// Events that other processes record and wait for.
#include <cstring>
#include <string>

#include "emulator/Error.h"
#include "emulator/Event.h"
#include "emulator/Trace.h"

using namespace npu_emulator;

extern "C" {

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  return call("aclrtIpcGetEventHandle", [&]() -> aclError {
    constexpr const char* kName = "aclrtIpcGetEventHandle";
    if (handle == nullptr) {
      return fail(ACL_ERROR_INVALID_PARAM, std::string(kName) + ": the handle pointer is null");
    }
    auto found = findEvent(event);
    if (found == nullptr) {
      return isForkedChild() ? ACL_ERROR_RT_CONTEXT_NULL : ACL_ERROR_RT_INVALID_HANDLE;
    }
    if ((found->flags & ACL_EVENT_IPC) == 0 || found->sharedOwner != nullptr) {
      return fail(
          ACL_ERROR_INVALID_PARAM,
          std::string(kName) + ": the event was not made here with ACL_EVENT_IPC");
    }
    SlotKey key;
    if (found->shared == nullptr || !slotKey(found->device, found->shared, &key)) {
      return fail(ACL_ERROR_RT_IPC_ERROR, std::string(kName) + ": the event has no shared state");
    }
    const std::string text = printKey("npu-event", key);
    std::memset(handle->reserved, 0, sizeof(handle->reserved));
    std::memcpy(handle->reserved, text.c_str(), text.size());
    return ACL_SUCCESS;
  });
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  return call("aclrtIpcOpenEventHandle", [&]() -> aclError {
    constexpr const char* kName = "aclrtIpcOpenEventHandle";
    SlotKey key;
    handle.reserved[sizeof(handle.reserved) - 1] = '\0';
    if (event == nullptr || !scanKey("npu-event", handle.reserved, &key)) {
      return fail(
          ACL_ERROR_INVALID_PARAM, std::string(kName) + ": not a handle of aclrtIpcGetEventHandle");
    }
    if (currentContext() == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    auto file = openForeignFile(key, kName);
    if (file == nullptr) {
      return ACL_ERROR_RT_IPC_ERROR;
    }
    auto opened = std::make_shared<Event>(ACL_EVENT_IPC);
    opened->shared = file->slot(key, SharedSlot::EventSlot);
    if (opened->shared == nullptr) {
      return fail(
          ACL_ERROR_RT_IPC_ERROR,
          std::string(kName) + ": the exporting process destroyed the event");
    }
    opened->sharedOwner = std::move(file);
    *event = addEvent(std::move(opened));
    return ACL_SUCCESS;
  });
}

}  // extern "C"
