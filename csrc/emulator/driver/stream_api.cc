// The driver's functions that deal with streams, events and whole contexts.
#include <algorithm>

#include "csrc/emulator/driver/gpu.h"

using hocket::Stream;
using hocket::cuda::Event;
using hocket::cuda::Result;
using namespace hocket::emulator;  // NOLINT: one file of forwarding functions
namespace cuda = hocket::cuda;

namespace {

using StreamPtr = std::shared_ptr<StreamState>;
using EventPtr = std::shared_ptr<EventState>;

bool Find(Stream handle, StreamPtr* stream) { return (*stream = Gpu::Get().FindStream(handle)) != nullptr; }
bool Find(Event handle, EventPtr* event) { return (*event = Gpu::Get().events().Find(handle)) != nullptr; }

// May the host wait for it now, or ask?
Result CheckWaitable(const EventState& event) {
  return event.captured() != nullptr ? cuda::kCapturedEvent : Gpu::Get().captures().CheckUnsafe();
}

}  // namespace

// Host functions and copies that are queued when a kernel fails are not done, and whoever waits hears of it.

// First lines of functions on one stream, one event or both.
#define HOCKET_FIND_STREAM(name, handle) \
  HOCKET_ENTER();                        \
  StreamPtr name;                        \
  if (!Find(handle, &name)) return cuda::kInvalidHandle
#define HOCKET_FIND_EVENT(name, handle) \
  HOCKET_ENTER();                       \
  EventPtr name;                        \
  if (!Find(handle, &name)) return cuda::kInvalidHandle

// --- streams ---

HOCKET_DRIVER_API Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  HOCKET_ENTER();
  if (stream == nullptr || flags > cuda::kStreamNonBlocking) return cuda::kInvalidValue;
  const Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  if (!Gpu::Get().state().AddStream(context->device())) return cuda::kOutOfMemory;
  const auto kind =
      flags == cuda::kStreamNonBlocking ? StreamState::Kind::kNonBlocking : StreamState::Kind::kBlocking;
  *stream =
      Streams::Handle(*Gpu::Get().streams().Create(context->device(), kind, std::clamp(priority, -5, 0)));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamCreate(Stream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

HOCKET_DRIVER_API Result cuStreamDestroy_v2(Stream handle) {
  HOCKET_FIND_STREAM(stream, handle);
  if (stream->kind() == StreamState::Kind::kLegacy) return cuda::kInvalidHandle;
  if (Gpu::Get().streams().Destroy(handle)) Gpu::Get().state().DropStream(stream->device());
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamSynchronize(Stream handle) {
  HOCKET_FIND_STREAM(stream, handle);
  if (const Result result = Gpu::Get().captures().CheckNotCapturing(*stream)) return result;
  stream->Synchronize();
  return Gpu::Lost();
}

HOCKET_DRIVER_API Result cuStreamQuery(Stream handle) {
  HOCKET_FIND_STREAM(stream, handle);
  if (const Result result = Gpu::Get().captures().CheckNotCapturing(*stream)) return result;
  return stream->Query() ? cuda::kSuccess : cuda::kNotReady;
}

HOCKET_DRIVER_API Result cuStreamWaitEvent(Stream handle, Event event_handle, unsigned) {
  HOCKET_FIND_STREAM(stream, handle);
  EventPtr event;
  if (!Find(event_handle, &event)) return cuda::kInvalidHandle;
  return stream->WaitFor(*event);
}

HOCKET_DRIVER_API Result cuStreamGetPriority(Stream handle, int* priority) {
  HOCKET_FIND_STREAM(stream, handle);
  *priority = stream->priority();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetFlags(Stream handle, unsigned* flags) {
  HOCKET_FIND_STREAM(stream, handle);
  *flags = stream->kind() == StreamState::Kind::kNonBlocking ? cuda::kStreamNonBlocking : 0;
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetId(Stream handle, unsigned long long* id) {
  HOCKET_FIND_STREAM(stream, handle);
  *id = stream->id();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetCtx(Stream handle, cuda::Context* context) {
  HOCKET_FIND_STREAM(stream, handle);
  *context = Gpu::Get().PrimaryContext(stream->device())->handle();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamGetDevice(Stream handle, int* device) {
  HOCKET_FIND_STREAM(stream, handle);
  *device = stream->device();
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuLaunchHostFunc(Stream handle, cuda::HostFunction function, void* data) {
  HOCKET_FIND_STREAM(stream, handle);
  stream->Submit(Operation{
      .name = "host function", .action = [=](std::int64_t) { function(data); }, .calls_program = true});
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuStreamAddCallback(Stream handle, cuda::StreamCallback callback, void* data,
                                             unsigned) {
  HOCKET_FIND_STREAM(stream, handle);
  stream->Submit(Operation{.name = "callback",
                           .action = [=](std::int64_t) { callback(handle, cuda::kSuccess, data); },
                           .calls_program = true});
  return cuda::kSuccess;
}

// --- events ---

HOCKET_DRIVER_API Result cuEventCreate(Event* event, unsigned flags) {
  HOCKET_ENTER();
  if (event == nullptr) return cuda::kInvalidValue;
  const Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  Gpu& gpu = Gpu::Get();
  std::shared_ptr<SharedEvent> shared;
  if ((flags & cuda::kEventInterprocess) != 0) {
    if ((flags & cuda::kEventDisableTiming) == 0) return cuda::kInvalidValue;
    shared = SharedEvent::Create(gpu.state());
    if (shared == nullptr) return cuda::kOutOfMemory;
  }
  *event = gpu.events().Add(
      std::make_shared<EventState>(context->device(), flags, gpu.streams(), std::move(shared)));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuEventDestroy_v2(Event handle) {
  HOCKET_ENTER();
  return Gpu::Get().events().Destroy(handle) ? cuda::kSuccess : cuda::kInvalidHandle;
}

HOCKET_DRIVER_API Result cuEventRecord(Event handle, Stream stream_handle) {
  HOCKET_FIND_EVENT(event, handle);
  StreamPtr stream;
  if (!Find(stream_handle, &stream) || stream->device() != event->device()) return cuda::kInvalidHandle;
  if (const Result result = Gpu::Get().captures().CheckLegacy(*stream)) return result;
  event->Record({stream});
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuEventRecordWithFlags(Event handle, Stream stream, unsigned) {
  return cuEventRecord(handle, stream);
}

HOCKET_DRIVER_API Result cuEventQuery(Event handle) {
  HOCKET_FIND_EVENT(event, handle);
  if (const Result result = CheckWaitable(*event)) return result;
  return event->Query() ? cuda::kSuccess : cuda::kNotReady;
}

HOCKET_DRIVER_API Result cuEventSynchronize(Event handle) {
  HOCKET_FIND_EVENT(event, handle);
  if (const Result result = CheckWaitable(*event)) return result;
  event->Synchronize();
  return Gpu::Lost();
}

HOCKET_DRIVER_API Result cuEventElapsedTime_v2(float* milliseconds, Event start_handle, Event end_handle) {
  HOCKET_FIND_EVENT(start, start_handle);
  EventPtr end;
  if (!Find(end_handle, &end)) return cuda::kInvalidHandle;
  if (!start->timed() || !end->timed() || !start->recorded() || !end->recorded()) return cuda::kInvalidHandle;
  if (!start->Done() || !end->Done()) return cuda::kNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(end->reached_ns() - start->reached_ns()) / 1e6);
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

// --- whole contexts ---

HOCKET_DRIVER_API Result cuCtxSynchronize() {
  HOCKET_ENTER();
  Context* context = CurrentContext();
  if (context == nullptr) return cuda::kInvalidContext;
  if (const Result result = Gpu::Get().captures().CheckNoneActive()) return result;
  Gpu::Get().streams().Synchronize(context->device());
  return Gpu::Lost();
}

HOCKET_DRIVER_API Result cuCtxRecordEvent(cuda::Context handle, Event event_handle) {
  HOCKET_FIND_EVENT(event, event_handle);
  const Context* context = Gpu::Get().Find(handle);
  if (context == nullptr) return cuda::kInvalidContext;
  if (context->device() != event->device()) return cuda::kInvalidHandle;
  if (const Result result = Gpu::Get().captures().CheckNoneActive()) return result;
  event->Record(Gpu::Get().streams().Of(context->device()));
  return cuda::kSuccess;
}

HOCKET_DRIVER_API Result cuCtxWaitEvent(cuda::Context handle, Event event_handle) {
  HOCKET_FIND_EVENT(event, event_handle);
  const Context* context = Gpu::Get().Find(handle);
  if (context == nullptr) return cuda::kInvalidContext;
  if (const Result result = Gpu::Get().captures().CheckNoneActive()) return result;
  for (const StreamPtr& stream : Gpu::Get().streams().Of(context->device())) stream->WaitFor(*event);
  return cuda::kSuccess;
}
