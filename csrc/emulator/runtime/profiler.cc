// The vendor's profiling interface (CUPTI), as torch.profiler uses it: it accepts what it is asked to watch
// and never has anything to tell. So a profile with ProfilerActivity.CUDA is complete for the CPU and has no
// events of the device; that is said once. The vendor's own library must not be reached: it looks for a real
// driver's inside.
#include <cupti.h>

#include <atomic>
#include <cstdio>

#include "csrc/emulator/runtime/call.h"

namespace {

void SayOnce() {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  std::fprintf(stderr,
               "hocket: the emulated GPU records no events of the device: a profile shows the CPU's only.\n");
}

}  // namespace

HOCKET_RUNTIME_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc,
                                                 void*) {
  static char somebody;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&somebody);
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }

HOCKET_RUNTIME_EXPORT CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                                      CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiFinalize() { return CUPTI_SUCCESS; }

HOCKET_RUNTIME_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "an error of the emulated GPU's profiler";
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t, const char** name) {
  *name = "";
  return CUPTI_ERROR_INVALID_PARAMETER;
}

// --- activities ---

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc,
                                                                 CUpti_BuffersCallbackCompleteFunc) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  SayOnce();
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) { return CUPTI_SUCCESS; }

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t*, size_t, CUpti_Activity** record) {
  *record = nullptr;
  return CUPTI_ERROR_MAX_LIMIT_REACHED;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                                         uint64_t) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                                        uint64_t* last) {
  if (last != nullptr) *last = 0;
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc) {
  return CUPTI_SUCCESS;
}

HOCKET_RUNTIME_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}
