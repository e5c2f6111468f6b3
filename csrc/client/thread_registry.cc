#include "csrc/client/thread_registry.h"

#include <pthread.h>

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace hocket {

// Outlives the registry for as long as a thread that was seen lives.
struct ThreadRegistry::Shared {
  Mutex mutex;
  std::function<void(const ThreadRecord&)> gone ABSL_GUARDED_BY(mutex);  // empty: the registry is no more
  std::vector<ThreadRecord*> records ABSL_GUARDED_BY(mutex);  // their threads destroy them after the removal
  std::atomic<int> known{0};
  std::atomic<bool> forgotten{false};  // a forked child's copy: its mutex may be locked for ever
};

namespace {

std::atomic<std::uint64_t> next_serial{1};

// The record asked for last: what almost every call wants.
struct Latest {
  std::uint64_t serial;
  ThreadRecord* record;
};
thread_local Latest latest{0, nullptr};

// Beside the records, which the thread's end destroys: these are never destroyed, so whoever comes later can
// look at them.
thread_local bool records_are_gone = false;
thread_local ThreadRecord of_ended_thread{.ended = true};

// The records of one thread, one for each registry that has seen it.
struct ThisThread {
  struct Entry {
    std::uint64_t serial;
    std::unique_ptr<ThreadRecord> record;
    std::function<void(const ThreadRecord&)> at_exit;
  };
  ~ThisThread() {
    for (Entry& entry : entries) entry.at_exit(*entry.record);
    latest = {0, nullptr};
    records_are_gone = true;
  }
  ThreadRecord* Find(std::uint64_t serial) {
    for (Entry& entry : entries) {
      if (entry.serial == serial) return entry.record.get();
    }
    return nullptr;
  }
  std::vector<Entry> entries;
};

thread_local ThisThread this_thread;
static_assert(std::is_trivially_destructible_v<ThreadRecord>);

}  // namespace

bool IsHelper() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::strncmp(name, "pt_autograd_", std::strlen("pt_autograd_")) == 0;
}

ThreadRegistry::ThreadRegistry(std::function<void(const ThreadRecord&)> gone)
    : shared_(std::make_shared<Shared>()), serial_(next_serial.fetch_add(1)) {
  MutexLock lock(&shared_->mutex);
  shared_->gone = std::move(gone);
}

ThreadRegistry::~ThreadRegistry() {
  if (shared_->forgotten.load()) return;
  MutexLock lock(&shared_->mutex);
  shared_->gone = nullptr;
}

ThreadRecord& ThreadRegistry::Mine() {
  if (latest.serial == serial_) return *latest.record;
  if (records_are_gone) return of_ended_thread;
  ThreadRecord* record = this_thread.Find(serial_);
  if (record == nullptr) {
    auto fresh = std::make_unique<ThreadRecord>();
    record = fresh.get();
    record->helper = IsHelper();
    if (!record->helper) shared_->known.fetch_add(1);
    auto at_exit = [shared = shared_](const ThreadRecord& gone) {
      if (shared->forgotten.load()) return;
      {
        MutexLock lock(&shared->mutex);
        std::erase(shared->records, &gone);
        if ((gone.depth > 0 || gone.away) && shared->gone) shared->gone(gone);
      }
      if (!gone.helper) shared->known.fetch_sub(1);
    };
    this_thread.entries.push_back({serial_, std::move(fresh), std::move(at_exit)});
    if (!shared_->forgotten.load()) {
      MutexLock lock(&shared_->mutex);
      shared_->records.push_back(record);
    }
  }
  latest = {serial_, record};
  return *record;
}

ThreadRecord* ThreadRegistry::Seen() const {
  if (latest.serial == serial_) return latest.record;
  return records_are_gone ? nullptr : this_thread.Find(serial_);
}

void ThreadRegistry::WithAll(absl::FunctionRef<void(const std::vector<ThreadRecord*>&)> use) const {
  if (shared_->forgotten.load()) return;
  MutexLock lock(&shared_->mutex);
  use(shared_->records);
}

int ThreadRegistry::known() const { return shared_->known.load(); }

void ThreadRegistry::Forget() {
  shared_->forgotten.store(true);
  shared_->known.store(0);
}

}  // namespace hocket
