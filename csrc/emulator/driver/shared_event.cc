#include "csrc/emulator/driver/shared_event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

namespace hocket::emulator {
namespace {

// How often a waiter looks whether the recorder still lives.
constexpr timespec kLookAgain{0, 10'000'000};

struct HandleBytes {
  std::uint64_t token;
  std::uint64_t generation;
  std::int32_t index;
};

}  // namespace

SharedEvent::SharedEvent(SharedState& state, int index, bool owned)
    : state_(state), index_(index), generation_(state.Event(index).generation), owned_(owned) {}

SharedEvent::~SharedEvent() {
  if (owned_ && !Gone()) state_.DropEvent(index_);
}

std::shared_ptr<SharedEvent> SharedEvent::Create(SharedState& state) {
  const int index = state.AddEvent();
  return index < 0 ? nullptr : std::shared_ptr<SharedEvent>(new SharedEvent(state, index, true));
}

std::shared_ptr<SharedEvent> SharedEvent::Open(SharedState& state, const cuda::IpcHandle& handle) {
  HandleBytes bytes;
  std::memcpy(&bytes, handle.bytes, sizeof(bytes));
  if (bytes.token != state.token() || bytes.index < 0 || bytes.index >= kMaxSharedEvents) return nullptr;
  if (state.Event(bytes.index).generation != bytes.generation) return nullptr;
  return std::shared_ptr<SharedEvent>(new SharedEvent(state, bytes.index, false));
}

cuda::IpcHandle SharedEvent::Handle() const {
  const HandleBytes bytes{state_.token(), generation_, index_};
  cuda::IpcHandle handle = {};
  std::memcpy(handle.bytes, &bytes, sizeof(bytes));
  return handle;
}

std::uint64_t SharedEvent::BeginRecord() {
  record().recorder = state_.self();
  return ++record().recorded;
}

void SharedEvent::Reached(std::uint64_t number) {
  if (Gone()) return;
  std::atomic<std::uint32_t>& completed = record().completed;
  const auto reached = static_cast<std::uint32_t>(number);
  // Records of several streams are reached on several threads, and the highest must last.
  std::uint32_t before = completed;
  while (before < reached && !completed.compare_exchange_weak(before, reached)) continue;
  syscall(SYS_futex, &completed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t SharedEvent::last() const { return record().recorded; }

bool SharedEvent::Done(std::uint64_t number) {
  return Gone() || record().completed >= number || !state_.Lives(record().recorder);
}

void SharedEvent::Wait(std::uint64_t number) {
  while (!Done(number)) {
    const std::uint32_t seen = record().completed;
    if (seen >= number) return;
    syscall(SYS_futex, &record().completed, FUTEX_WAIT, seen, &kLookAgain, nullptr, 0);
  }
}

void SharedEvent::NoteUses(std::uint64_t use) { record().last_use = use; }
int SharedEvent::recorder() const { return record().recorder; }
std::uint64_t SharedEvent::last_use() const { return record().last_use; }

}  // namespace hocket::emulator
