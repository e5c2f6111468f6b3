#include "csrc/emulator/driver/gpu.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "csrc/emulator/driver/faults.h"
#include "csrc/emulator/driver/process.h"
#include "csrc/emulator/driver/thread_queue.h"
#include "csrc/emulator/driver/timed_queue.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {
namespace {

enum class Phase { kNotStarted, kRunning, kForked, kEnded };

std::atomic<Phase> phase = Phase::kNotStarted;
std::atomic<Gpu*> gpu = nullptr;
std::atomic<cuda::Result> lost = cuda::kSuccess;
std::mutex start_mutex;

// The contexts pushed by this thread; the last is the current one. It has nothing to destroy: programs call
// the driver at the process's end, when what their threads had is gone.
struct ContextStack {
  static constexpr int kMostPushed = 64;
  std::array<Context*, kMostPushed> contexts;
  int size;
};
thread_local ContextStack stack = {};

}  // namespace

Gpu::Gpu()
    : settings_(Settings::Get()),
      state_(settings_),
      memory_(state_, settings_.granularity),
      order_(settings_.check ? std::make_unique<Order>(state_, memory_) : nullptr),
      streams_(order_.get(), [this](int device) { return MakeQueue(device); }) {
  if (settings_.timing) OpenTimelines();
}

// Every device at once: a stream may be made for any of them at any time.
void Gpu::OpenTimelines() {
  const timing::Identity self{getpid(), StartTime(getpid()).value_or(0), &ProcessLives};
  engine_ = std::make_unique<timing::StreamEngine>(timing::Clock::Monotonic(), self);
  for (int device = 0; device < state_.devices(); ++device) {
    const absl::Status opened = engine_->Open(device, state_.Timeline(device));
    if (!opened.ok()) hocket_emulator_fatal(std::string(opened.message()).c_str());
  }
}

std::shared_ptr<WorkQueue> Gpu::MakeQueue(int device) {
  if (engine_ != nullptr) return std::make_shared<TimedQueue>(*engine_, device);
  return std::make_shared<ThreadQueue>(settings_.copy_delay);
}

cuda::Result Gpu::Start() {
  const std::lock_guard lock(start_mutex);
  if (phase != Phase::kNotStarted) return Ready();
  RaiseDescriptorLimit();
  gpu = new Gpu();  // lives until the process ends: threads and late destructors may still call
  InstallFaultHandler();
  pthread_atfork(&Gpu::BeforeFork, &Gpu::InParent, &Gpu::InChild);
  std::atexit(&Gpu::AtExit);
  phase = Phase::kRunning;
  return cuda::kSuccess;
}

cuda::Result Gpu::Ready() {
  switch (phase.load(std::memory_order_acquire)) {
    case Phase::kRunning:
      return cuda::kSuccess;
    case Phase::kEnded:
      return cuda::kDeinitialized;
    default:
      return cuda::kNotInitialized;
  }
}

void Gpu::Lose(cuda::Result error) {
  cuda::Result none = cuda::kSuccess;
  if (!lost.compare_exchange_strong(none, error)) return;
  for (const auto& stream : Get().streams_.All()) stream->queue().Stop();
  if (Get().engine_ != nullptr) Get().engine_->Stop();
  if (Get().order_ != nullptr) Get().order_->AllIsOver();
}

cuda::Result Gpu::Lost() { return lost.load(std::memory_order_acquire); }

Gpu& Gpu::Get() { return *gpu.load(std::memory_order_acquire); }

Gpu* Gpu::IfStarted() { return phase == Phase::kRunning || phase == Phase::kEnded ? gpu.load() : nullptr; }

cuda::Result Gpu::MakeContext(int device) {
  const std::lock_guard lock(contexts_mutex_);
  if (contexts_[device] != nullptr) return cuda::kSuccess;
  // What HOCKET_EMULATOR_CONTEXT_MS asks for: a context takes that long to make, and one for which there is
  // no room does not fail at once. Nobody synchronises by it.
  std::this_thread::sleep_for(settings_.context);
  if (const cuda::Result result = state_.AddContext(device)) return result;
  contexts_[device] = new Context(device, streams_);  // kept: handles of it may be anywhere
  return cuda::kSuccess;
}

Context* Gpu::Find(cuda::Context handle) const {
  for (const std::atomic<Context*>& context : contexts_) {
    if (context != nullptr && context.load()->handle() == handle) return context;
  }
  return nullptr;
}

std::shared_ptr<StreamState> Gpu::FindStream(Stream handle) {
  Context* context = CurrentContext();
  if (reinterpret_cast<std::uintptr_t>(handle) > cuda::kPerThreadStream) return streams_.Find(handle);
  if (context == nullptr) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(handle) != cuda::kPerThreadStream) return context->legacy();
  thread_local std::array<Stream, kMaxDevices> own = {};
  Stream& stream = own[context->device()];
  if (stream == nullptr)
    stream = Streams::Handle(*streams_.Create(context->device(), StreamState::Kind::kBlocking, 0));
  return streams_.Find(stream);
}

void Gpu::BeforeFork() {
  Get().memory_.Lock();
  if (Get().engine_ != nullptr) Get().engine_->BeforeFork();
}

void Gpu::InParent() {
  if (Get().engine_ != nullptr) Get().engine_->InParent();
  Get().memory_.Unlock();
}

void Gpu::InChild() {
  if (Get().engine_ != nullptr) Get().engine_->InChild();
  Get().memory_.AbandonAll();
  phase = Phase::kForked;
}

void Gpu::AtExit() {
  if (phase != Phase::kRunning) return;
  phase = Phase::kEnded;
  for (const auto& stream : Get().streams_.All()) stream->queue().Stop();
  if (Get().engine_ != nullptr) Get().engine_->Stop();
  Get().state_.Leave();
}

Context* CurrentContext() { return stack.size == 0 ? nullptr : stack.contexts[stack.size - 1]; }

void SetCurrentContext(Context* context) {
  if (stack.size > 0) --stack.size;
  if (context != nullptr) stack.contexts[stack.size++] = context;
}

cuda::Result PushContext(Context* context) {
  if (stack.size == ContextStack::kMostPushed) return cuda::kOutOfMemory;
  stack.contexts[stack.size++] = context;
  return cuda::kSuccess;
}

cuda::Result PopContext(Context** context) {
  if (stack.size == 0) return cuda::kInvalidContext;
  *context = stack.contexts[--stack.size];
  return cuda::kSuccess;
}

}  // namespace hocket::emulator
