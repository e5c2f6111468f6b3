// Stream capture and graphs. Whether a stream captures, and the rules that hold meanwhile, are the driver's.
#include "csrc/emulator/runtime/call.h"

using hocket::emulator::Finish;

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                        cudaStreamCaptureStatus* status) {
  HOCKET_ENTER();
  return Finish(cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                           cudaStreamCaptureStatus* status,
                                                           unsigned long long* id, cudaGraph_t* graph,
                                                           const cudaGraphNode_t** dependencies,
                                                           const cudaGraphEdgeData** edges, size_t* count) {
  HOCKET_ENTER();
  cuuint64_t capture = 0;
  const CUresult result =
      cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &capture, graph,
                             dependencies, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (id != nullptr) *id = capture;
  return Finish(result);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  HOCKET_ENTER();
  return Finish(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  HOCKET_ENTER();
  return Finish(cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  HOCKET_ENTER();
  return Finish(cuStreamEndCapture(stream, graph));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable,
                                                                cudaGraph_t graph, unsigned long long flags) {
  HOCKET_ENTER();
  return Finish(cuGraphInstantiateWithFlags(executable, graph, flags));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                       unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  HOCKET_ENTER();
  return Finish(cuGraphLaunch(executable, stream));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  HOCKET_ENTER();
  return Finish(cuGraphDestroy(graph));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  HOCKET_ENTER();
  return Finish(cuGraphExecDestroy(executable));
}

HOCKET_RUNTIME_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                                    size_t* count) {
  HOCKET_ENTER();
  return Finish(cuGraphGetNodes(graph, nodes, count));
}
