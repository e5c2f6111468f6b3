// The driver's functions that deal with stream capture and graphs.
#include <cstdio>
#include <cstring>

#include "csrc/emulator/driver/faults.h"
#include "csrc/emulator/driver/gpu.h"

using hocket::Stream;
using hocket::cuda::Graph;
using hocket::cuda::GraphExec;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

// What was freed and unmapped meanwhile needs nothing.
void PutBack(const KeptBytes& overwritten) {
  DeviceMemory& memory = Gpu::Get().memory();
  overwritten.ForEach([&](std::uint64_t address, const std::vector<char>& bytes) {
    if (!memory.Accessible(address, bytes.size())) return;
    std::memcpy(reinterpret_cast<char*>(address) + memory.window().alias_offset(), bytes.data(),
                bytes.size());
  });
}

// The operator runs here and now, in the stream's order.
bool Compute(StreamState& stream, const Operation& node) {
  stream.BeginInline(node.name, node.uses);
  BeginKernel(node.name);
  const bool computed = node.compute();
  EndKernel();
  stream.EndInline();
  return computed;
}

// A kernel that was computed while it was captured, and that nobody knows how to compute again (values mode).
const char* NotReplayable(const GraphState& graph) {
  for (const Operation& node : graph.nodes) {
    if (node.nanoseconds < 0) return node.name;
  }
  return nullptr;
}

}  // namespace

HOCKET_DRIVER_API Result cuThreadExchangeStreamCaptureMode(int* mode) {
  HOCKET_ENTER();
  if (mode == nullptr || *mode < cuda::kCaptureGlobal || *mode > cuda::kCaptureRelaxed)
    return cuda::kInvalidValue;
  std::swap(*mode, Captures::ThreadMode());
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamBeginCapture_v2(Stream handle, int mode) {
  HOCKET_ENTER();
  const auto stream = Gpu::Get().FindStream(handle);
  return stream == nullptr ? cuda::kInvalidHandle : Gpu::Get().captures().Begin(*stream, mode);
}

HOCKET_DRIVER_API Result cuStreamEndCapture(Stream handle, Graph* graph) {
  HOCKET_ENTER();
  const auto stream = Gpu::Get().FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  KeptBytes overwritten;
  const Result result = Gpu::Get().captures().End(*stream, graph, &overwritten);
  PutBack(overwritten);
  return result;
}

HOCKET_DRIVER_API Result cuStreamIsCapturing(Stream handle, int* status) {
  HOCKET_ENTER();
  const auto stream = Gpu::Get().FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  *status = Gpu::Get().captures().Status(*stream, nullptr);
  return cuda::kSuccess;
}

// The graph and its nodes are not shown: there is none before the capture ends.
HOCKET_DRIVER_API Result cuStreamGetCaptureInfo_v3(Stream handle, int* status, std::uint64_t* id,
                                                   Graph* graph, const void** dependencies,
                                                   const void** edges, std::size_t* count) {
  HOCKET_ENTER();
  const auto stream = Gpu::Get().FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  *status = Gpu::Get().captures().Status(*stream, id);
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetCaptureInfo_v2(Stream stream, int* status, std::uint64_t* id,
                                                   Graph* graph, const void** dependencies,
                                                   std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

// --- graphs ---

HOCKET_DRIVER_API Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  HOCKET_ENTER();
  return exec == nullptr ? cuda::kInvalidValue : Gpu::Get().captures().Instantiate(graph, exec);
}

HOCKET_DRIVER_API Result cuGraphUpload(GraphExec exec, Stream) {
  HOCKET_ENTER();
  return Gpu::Get().captures().Find(exec) == nullptr ? cuda::kInvalidValue : cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuGraphLaunch(GraphExec exec, Stream handle) {
  HOCKET_ENTER();
  const auto stream = Gpu::Get().FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  const auto graph = Gpu::Get().captures().Find(exec);
  if (graph == nullptr) return cuda::kInvalidValue;
  if (const char* kernel = NotReplayable(*graph)) {
    std::fprintf(
        stderr,
        "hocket: the graph holds the kernel %s, which the emulated GPU computed while it was captured "
        "and cannot compute again. Leave it out of the graph, or run in timing mode.\n",
        kernel);
    return cuda::kNotSupported;
  }
  const bool captures = Gpu::Get().captures().IsCapturing(*stream);
  for (const Operation& node : graph->nodes) {
    if (captures || !node.compute)
      stream->Submit(node);
    else if (!Compute(*stream, node))
      return cuda::kLaunchFailed;
  }
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuGraphGetNodes(Graph graph, void** nodes, std::size_t* count) {
  HOCKET_ENTER();
  const auto state = Gpu::Get().captures().Find(graph);
  if (state == nullptr || count == nullptr) return cuda::kInvalidValue;
  if (nodes != nullptr) return cuda::kNotSupported;
  *count = state->nodes.size();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuGraphDestroy(Graph graph) {
  HOCKET_ENTER();
  return Gpu::Get().captures().Destroy(graph) ? cuda::kSuccess : cuda::kInvalidValue;
}

HOCKET_DRIVER_API Result cuGraphExecDestroy(GraphExec exec) {
  HOCKET_ENTER();
  return Gpu::Get().captures().Destroy(exec) ? cuda::kSuccess : cuda::kInvalidValue;
}
