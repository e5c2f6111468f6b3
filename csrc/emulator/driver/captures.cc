#include "csrc/emulator/driver/captures.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "csrc/emulator/driver/streams.h"

namespace hocket::emulator {
namespace {

bool Own(const Capture& capture) { return capture.thread == std::this_thread::get_id(); }

// The table in the header.
bool Forbids(const Capture& capture, int thread_mode) {
  if (thread_mode == cuda::kCaptureRelaxed || capture.mode == cuda::kCaptureRelaxed) return false;
  return Own(capture) || (thread_mode == cuda::kCaptureGlobal && capture.mode == cuda::kCaptureGlobal);
}

void Merge(const Knowledge& more, Knowledge& knowledge) {
  for (const auto& [stream, nodes] : more) knowledge[stream] = std::max(knowledge[stream], nodes);
}

}  // namespace

void KeptBytes::Keep(std::uint64_t address, const char* bytes, std::size_t size) {
  const std::uint64_t end = address + size;
  std::uint64_t at = address;
  auto next = pieces_.upper_bound(at);
  if (next != pieces_.begin()) {
    const auto& [before, kept] = *std::prev(next);
    at = std::max(at, before + kept.size());
  }
  while (at < end) {
    const std::uint64_t gap_end = next == pieces_.end() ? end : std::min(end, next->first);
    if (at < gap_end)
      pieces_.emplace(at, std::vector<char>(bytes + (at - address), bytes + (gap_end - address)));
    if (next == pieces_.end()) return;
    at = next->first + next->second.size();
    ++next;
  }
}

int& Captures::ThreadMode() {
  thread_local int mode = cuda::kCaptureGlobal;
  return mode;
}

cuda::Result Captures::Begin(StreamState& stream, int mode) {
  if (mode < cuda::kCaptureGlobal || mode > cuda::kCaptureRelaxed) return cuda::kInvalidValue;
  if (stream.kind() == StreamState::Kind::kLegacy) return cuda::kCaptureUnsupported;
  const std::lock_guard lock(mutex_);
  if (Of(stream.id()) != nullptr) return cuda::kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = next_id_++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.id();
  capture->origin_is_blocking = stream.kind() == StreamState::Kind::kBlocking;
  capture->branches[stream.id()] = {};
  by_stream_[stream.id()] = std::move(capture);
  ++active_;
  return cuda::kSuccess;
}

cuda::Result Captures::End(StreamState& stream, cuda::Graph* graph, KeptBytes* overwritten) {
  const std::lock_guard lock(mutex_);
  if (graph != nullptr) *graph = nullptr;
  const CapturePtr capture = Of(stream.id());
  if (capture == nullptr) return cuda::kIllegalState;
  if (capture->origin != stream.id()) return cuda::kCaptureUnmatched;
  if (capture->mode != cuda::kCaptureRelaxed && !Own(*capture)) return cuda::kCaptureWrongThread;
  Forget(*capture);
  *overwritten = std::move(capture->overwritten);
  if (capture->invalidated) return cuda::kCaptureInvalidated;
  if (!Joined(*capture)) return cuda::kCaptureUnjoined;
  auto state = std::make_shared<GraphState>();
  state->nodes = std::move(capture->nodes);
  const auto handle = reinterpret_cast<cuda::Graph>(state.get());
  graphs_[handle] = std::move(state);
  if (graph != nullptr) *graph = handle;
  return cuda::kSuccess;
}

int Captures::Status(const StreamState& stream, std::uint64_t* id) const {
  if (active_ == 0) return cuda::kCaptureStatusNone;
  const std::lock_guard lock(mutex_);
  const CapturePtr capture = Of(stream.id());
  if (capture == nullptr) return cuda::kCaptureStatusNone;
  if (id != nullptr) *id = capture->id;
  return capture->invalidated ? cuda::kCaptureStatusInvalidated : cuda::kCaptureStatusActive;
}

bool Captures::IsCapturing(const StreamState& stream) const {
  return Status(stream, nullptr) != cuda::kCaptureStatusNone;
}

bool Captures::Add(const StreamState& stream, Operation& operation) {
  if (active_ == 0) return false;
  const std::lock_guard lock(mutex_);
  const CapturePtr capture = Of(stream.id());
  if (capture == nullptr) return false;
  operation.after.clear();  // the graph's order says it
  capture->nodes.push_back(std::move(operation));
  ++capture->branches[stream.id()][stream.id()];
  return true;
}

void Captures::KeepBytes(const StreamState& stream, std::uint64_t address, const char* bytes,
                         std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (const CapturePtr capture = Of(stream.id())) capture->overwritten.Keep(address, bytes, size);
}

std::shared_ptr<Captures::Captured> Captures::Record(const StreamState& stream) const {
  if (active_ == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const CapturePtr capture = Of(stream.id());
  if (capture == nullptr) return nullptr;
  return std::make_shared<Captured>(Captured{capture->id, capture->branches[stream.id()]});
}

cuda::Result Captures::Wait(const StreamState& stream, const std::shared_ptr<Captured>& event, bool* joined) {
  *joined = false;
  if (active_ == 0) return cuda::kSuccess;
  const std::lock_guard lock(mutex_);
  CapturePtr capture = Of(stream.id());
  if (event == nullptr) {
    if (capture != nullptr) capture->invalidated = true;
    return capture == nullptr ? cuda::kSuccess : cuda::kCaptureIsolation;
  }
  for (const auto& [id, other] : by_stream_) {
    if (capture == nullptr && other->id == event->capture) capture = other;
  }
  if (capture == nullptr) return cuda::kSuccess;  // the event's capture is over
  if (capture->id != event->capture) return cuda::kCaptureMerge;
  by_stream_[stream.id()] = capture;
  Merge(event->knowledge, capture->branches[stream.id()]);
  *joined = true;
  return cuda::kSuccess;
}

cuda::Result Captures::CheckNotCapturing(const StreamState& stream) {
  if (active_ == 0) return cuda::kSuccess;
  const std::lock_guard lock(mutex_);
  const CapturePtr capture = Of(stream.id());
  if (capture == nullptr) return cuda::kSuccess;
  capture->invalidated = true;
  return cuda::kCaptureUnsupported;
}

cuda::Result Captures::CheckUnsafe() {
  if (active_ == 0) return cuda::kSuccess;
  const std::lock_guard lock(mutex_);
  cuda::Result result = cuda::kSuccess;
  for (const auto& [stream, capture] : by_stream_) {
    if (!Forbids(*capture, ThreadMode())) continue;
    capture->invalidated = true;
    result = cuda::kCaptureUnsupported;
  }
  return result;
}

cuda::Result Captures::CheckNoneActive() {
  if (active_ == 0) return cuda::kSuccess;
  const std::lock_guard lock(mutex_);
  for (const auto& [stream, capture] : by_stream_) capture->invalidated = true;
  return by_stream_.empty() ? cuda::kSuccess : cuda::kCaptureUnsupported;
}

cuda::Result Captures::CheckLegacy(const StreamState& stream) {
  if (active_ == 0 || stream.kind() != StreamState::Kind::kLegacy) return cuda::kSuccess;
  const std::lock_guard lock(mutex_);
  cuda::Result result = cuda::kSuccess;
  for (const auto& [id, capture] : by_stream_) {
    if (!capture->origin_is_blocking) continue;
    capture->invalidated = true;
    result = cuda::kCaptureImplicit;
  }
  return result;
}

Captures::CapturePtr Captures::Of(std::uint64_t stream) const {
  const auto found = by_stream_.find(stream);
  return found == by_stream_.end() ? nullptr : found->second;
}

// Does the stream it began on know all nodes of the others?
bool Captures::Joined(const Capture& capture) const {
  const Knowledge& origin = capture.branches.at(capture.origin);
  for (const auto& [stream, knowledge] : capture.branches) {
    const auto own = knowledge.find(stream);
    const auto known = origin.find(stream);
    if (own != knowledge.end() && (known == origin.end() || known->second < own->second)) return false;
  }
  return true;
}

void Captures::Forget(const Capture& capture) {
  std::erase_if(by_stream_, [&](const auto& entry) { return entry.second.get() == &capture; });
  --active_;
}

// --- graphs ---

cuda::Result Captures::Instantiate(cuda::Graph graph, cuda::GraphExec* exec) {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return cuda::kInvalidValue;
  auto copy = std::make_shared<GraphState>(*found->second);
  *exec = reinterpret_cast<cuda::GraphExec>(copy.get());
  execs_[*exec] = std::move(copy);
  return cuda::kSuccess;
}

std::shared_ptr<const GraphState> Captures::Find(cuda::GraphExec exec) const {
  const std::lock_guard lock(mutex_);
  const auto found = execs_.find(exec);
  return found == execs_.end() ? nullptr : found->second;
}

std::shared_ptr<const GraphState> Captures::Find(cuda::Graph graph) const {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? nullptr : found->second;
}

bool Captures::Destroy(cuda::Graph graph) {
  const std::lock_guard lock(mutex_);
  return graphs_.erase(graph) == 1;
}

bool Captures::Destroy(cuda::GraphExec exec) {
  const std::lock_guard lock(mutex_);
  return execs_.erase(exec) == 1;
}

}  // namespace hocket::emulator
