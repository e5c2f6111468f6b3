// Streams and events: the driver's, under the runtime's names.
#include "csrc/emulator/runtime/call.h"

using hocket::emulator::Finish;

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                               int priority) {
  HOCKET_ENTER();
  return Finish(cuStreamCreateWithPriority(stream, flags, priority));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  HOCKET_ENTER();
  return Finish(cuStreamCreate(stream, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  HOCKET_ENTER();
  return Finish(cuStreamDestroy(stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  HOCKET_ENTER();
  return Finish(cuStreamSynchronize(stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  HOCKET_ENTER();
  return Finish(cuStreamQuery(stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                      unsigned flags) {
  HOCKET_ENTER();
  return Finish(cuStreamWaitEvent(stream, event, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  HOCKET_ENTER();
  return Finish(cuStreamGetPriority(stream, priority));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                                     void* argument) {
  HOCKET_ENTER();
  return Finish(cuLaunchHostFunc(stream, function, argument));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                                        void* argument, unsigned) {
  struct Call {
    cudaStream_t stream;
    cudaStreamCallback_t callback;
    void* argument;
  };
  HOCKET_ENTER();
  auto run = [](void* request) {
    auto* call = static_cast<Call*>(request);
    call->callback(call->stream, cudaSuccess, call->argument);
    delete call;
  };
  return Finish(cuLaunchHostFunc(stream, run, new Call{stream, callback, argument}));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  HOCKET_ENTER();
  return Finish(cuEventCreate(event, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  HOCKET_ENTER();
  return Finish(cuEventDestroy(event));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  HOCKET_ENTER();
  return Finish(cuEventRecord(event, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  HOCKET_ENTER();
  return Finish(cuEventQuery(event));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  HOCKET_ENTER();
  return Finish(cuEventSynchronize(event));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                                       cudaEvent_t end) {
  HOCKET_ENTER();
  return Finish(cuEventElapsedTime(milliseconds, begin, end));
}
