#include "csrc/emulator/driver/shared_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/base/unique_fd.h"
#include "csrc/emulator/driver/process.h"
#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/timing/system.h"

namespace hocket::emulator {

struct SharedLayout {
  std::atomic<std::uint64_t> magic;  // 0 until the page is initialised. Written last.
  std::uint64_t token;
  std::uint64_t memory;
  std::int32_t devices;
  std::int32_t padding;
  pthread_mutex_t mutex;
  std::uint64_t next_chunk;
  std::uint64_t next_generation;
  std::int32_t chunk_end;           // no chunk record at or behind it was ever used
  std::int32_t chunk_free;          // and none before this one is free
  std::uint64_t used[kMaxDevices];  // by its chunks
  ProcessRecord processes[kMaxProcesses];
  ChunkRecord chunks[kMaxChunks];
  SharedEventRecord events[kMaxSharedEvents];
  timing::TimelineState timelines[kMaxDevices];
};

namespace {

// Changes with SharedLayout.
constexpr std::uint64_t kMagic = 0x686f636b65740004;
constexpr int kSlotBits = 16;

std::uint64_t Bit(int process) { return std::uint64_t{1} << (process % 64); }

bool Held(const ChunkRecord& chunk) {
  for (std::uint64_t word : chunk.holders) {
    if (word != 0) return true;
  }
  return false;
}

[[noreturn]] void Fail(const std::string& path, const char* what) {
  const std::string reason = std::strerror(errno);
  hocket_emulator_fatal(absl::StrCat("cannot ", what, " ", path, ": ", reason,
                                     ". The emulated GPU keeps its state there; make it writable.")
                            .c_str());
  std::abort();
}

UniqueFd OpenOwn(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

// The kernel lets nobody open another user's file there as if he made it.
UniqueFd OpenForAll(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (fd || errno != ENOENT) return fd;
  fd = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd && fchmod(fd.get(), 0666) != 0) fd.Reset();
  return fd;
}

// Opens and locks the page: one process at a time creates, enters or removes it.
UniqueFd OpenPage(const std::string& path, bool all_users) {
  while (true) {
    UniqueFd fd = AboveStandard(all_users ? OpenForAll(path) : OpenOwn(path));
    if (!fd && all_users && errno == EEXIST) continue;
    if (!fd) Fail(path, "open");
    if (flock(fd.get(), LOCK_EX) != 0) Fail(path, "lock");
    struct stat info;
    if (fstat(fd.get(), &info) != 0) Fail(path, "inspect");
    if (info.st_nlink == 0) continue;  // removed by its last user before we had the lock
    if (info.st_uid != geteuid() && !all_users) {
      errno = EPERM;
      Fail(path, "use another user's");
    }
    if (info.st_size < static_cast<off_t>(sizeof(SharedLayout)) &&
        ftruncate(fd.get(), sizeof(SharedLayout)) != 0) {
      Fail(path, "enlarge");
    }
    return fd;
  }
}

}  // namespace

// Holds the page's lock; repairs what a dead owner left.
class SharedState::Guard {
 public:
  explicit Guard(SharedState& state) : mutex_(state.page_->mutex) {
    const int result = pthread_mutex_lock(&mutex_);
    HOCKET_CHECK(result == 0 || result == EOWNERDEAD) << std::strerror(result);
    if (result == EOWNERDEAD) {
      state.Repair();
      pthread_mutex_consistent(&mutex_);
    }
  }
  ~Guard() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

std::string OwnerOf(const Settings& settings) { return settings.all_users ? "all" : absl::StrCat(geteuid()); }

SharedState::SharedState(const Settings& settings)
    : path_(absl::StrCat("/dev/shm/hocket-emulator-", OwnerOf(settings), "-", settings.name)),
      settings_(settings) {
  const UniqueFd fd = OpenPage(path_, settings_.all_users);
  void* page = mmap(nullptr, sizeof(SharedLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) Fail(path_, "map");
  madvise(page, sizeof(SharedLayout), MADV_DONTFORK);
  page_ = static_cast<SharedLayout*>(page);
  if (page_->magic == 0) {
    // What a process that was killed while it created the page may have left is cleared.
    if (ftruncate(fd.get(), 0) != 0 || ftruncate(fd.get(), sizeof(SharedLayout)) != 0) Fail(path_, "clear");
    Create(settings);
  }
  if (page_->magic != kMagic) {
    hocket_emulator_fatal(absl::StrCat("cannot use ", path_,
                                       ": another version of the emulated GPU made it. Stop its "
                                       "processes and delete it, or choose another name.")
                              .c_str());
  }
  Adopt(settings);
  Enter();
  flock(fd.get(), LOCK_UN);  // closing is not enough: the mapping keeps the file, and its lock, open
}

void SharedState::Create(const Settings& settings) {
  timing::InitializeShared(page_->mutex);
  if (getrandom(&page_->token, sizeof(page_->token), 0) != sizeof(page_->token)) page_->token = getpid();
  page_->memory = settings.memory;
  page_->devices = settings.devices;
  for (timing::TimelineState& timeline : page_->timelines) {
    timing::Initialize(timeline, std::chrono::nanoseconds(settings.slice).count());
  }
  page_->next_chunk = 1;
  page_->next_generation = 1;
  page_->magic = kMagic;
}

void SharedState::Adopt(const Settings& settings) {
  const Guard guard(*this);
  Reap();
  const bool same = page_->memory == settings.memory && page_->devices == settings.devices;
  if (!SomebodyLives()) {
    page_->memory = settings.memory;
    page_->devices = settings.devices;
    for (timing::TimelineState& timeline : page_->timelines) {
      timing::SetSlice(timeline, std::chrono::nanoseconds(settings.slice).count());
    }
  } else if (!same) {
    std::fprintf(
        stderr,
        "hocket: asked for %d emulated device(s) of %s; '%s' exists with %d of %s and is in use: using "
        "that. For others end its processes or choose another name.\n",
        settings.devices, FormatBytes(settings.memory).c_str(), settings.name.c_str(), page_->devices,
        FormatBytes(page_->memory).c_str());
  }
  devices_ = page_->devices;
  memory_ = page_->memory;
  token_ = page_->token;
}

bool SharedState::SomebodyLives() {
  for (const ProcessRecord& process : page_->processes) {
    if (process.pid != 0 && process.dead_since_ns == 0) return true;
  }
  return false;
}

void SharedState::Enter() {
  const Guard guard(*this);
  // What this process was before exec() has gone, and the pid has not.
  for (ProcessRecord& process : page_->processes) {
    if (process.pid == getpid() && process.dead_since_ns == 0) process.dead_since_ns = MonotonicNs();
  }
  for (int i = 0; i < kMaxProcesses; ++i) {
    ProcessRecord& process = page_->processes[i];
    if (process.pid != 0) continue;
    process.start_time = StartTime(getpid()).value_or(0);
    process.dead_since_ns = 0;
    process.contexts = 0;
    process.finished_use = 0;
    for (std::atomic<std::uint32_t>& streams : process.streams) streams = 0;
    process.pid = getpid();
    self_ = i;
    return;
  }
  hocket_emulator_fatal("cannot use the emulated GPU: 256 processes use it already. End some of them.");
}

void SharedState::Repair() {
  for (int i = 0; i < page_->chunk_end; ++i) {
    ChunkRecord& chunk = page_->chunks[i];
    for (int p = 0; p < kMaxProcesses; ++p) {
      if (page_->processes[p].pid == 0) chunk.holders[p / 64] &= ~Bit(p);
    }
    if (!Held(chunk)) chunk.id = 0;
  }
  CountChunks();
}

void SharedState::Reap() {
  for (int i = 0; i < kMaxProcesses; ++i) {
    ProcessRecord& process = page_->processes[i];
    if (process.pid == 0 || i == self_) continue;
    if (process.dead_since_ns == 0 && !ProcessLives(process.pid, process.start_time)) {
      process.dead_since_ns = MonotonicNs();
    }
    const std::int64_t delay = std::chrono::nanoseconds(settings_.teardown).count();
    if (process.dead_since_ns != 0 && MonotonicNs() - process.dead_since_ns >= delay) Bury(i);
  }
}

void SharedState::Bury(int index) {
  for (int i = 0; i < page_->chunk_end; ++i) {
    ChunkRecord& chunk = page_->chunks[i];
    chunk.holders[index / 64] &= ~Bit(index);
    if (chunk.last_user == index) chunk.last_user = -1;
    if (chunk.id != 0 && !Held(chunk)) Free(chunk);
  }
  for (SharedEventRecord& event : page_->events) {
    if (event.generation != 0 && event.owner == index) event.generation = 0;
  }
  page_->processes[index].pid = 0;
}

// Whoever held the lock died in between.
void SharedState::CountChunks() {
  page_->chunk_free = 0;
  for (std::uint64_t& used : page_->used) used = 0;
  for (int i = 0; i < page_->chunk_end; ++i) {
    const ChunkRecord& chunk = page_->chunks[i];
    if (chunk.id != 0 && chunk.device != kOnHost) page_->used[chunk.device] += chunk.size;
  }
}

Bytes SharedState::Sum(int device) const {
  Bytes sum = page_->used[device];
  if (settings_.context_memory == 0 && settings_.stream_memory == 0) return sum;
  for (const ProcessRecord& process : page_->processes) {
    if (process.pid == 0) continue;
    if ((process.contexts >> device & 1) != 0) sum += settings_.context_memory;
    sum += process.streams[device] * settings_.stream_memory;
  }
  return sum;
}

bool SharedState::Fits(int device, Bytes size) {
  if (device == kOnHost) return true;
  if (size > memory_) return false;
  if (Sum(device) + size <= memory_) return true;
  Reap();
  return Sum(device) + size <= memory_;
}

ChunkRecord* SharedState::Find(std::uint64_t id) const {
  ChunkRecord& usual = page_->chunks[id % kMaxChunks];
  if (usual.id == id) return &usual;
  for (int i = 0; i < page_->chunk_end; ++i) {
    if (page_->chunks[i].id == id) return &page_->chunks[i];
  }
  return nullptr;
}

ChunkRecord* SharedState::FreeRecord() const {
  for (int i = page_->chunk_free; i < kMaxChunks; ++i) {
    page_->chunk_free = i;
    if (page_->chunks[i].id != 0) continue;
    if (i >= page_->chunk_end) page_->chunk_end = i + 1;
    return &page_->chunks[i];
  }
  return nullptr;
}

void SharedState::Write(ChunkRecord& record, std::uint64_t id, int device, Bytes size) const {
  record.size = size;
  record.device = device;
  record.last_user = -1;
  for (std::uint64_t& word : record.holders) word = 0;
  record.holders[self_ / 64] |= Bit(self_);
  if (device != kOnHost) page_->used[device] += size;
  record.id = id;
}

void SharedState::Free(ChunkRecord& record) const {
  if (record.device != kOnHost) page_->used[record.device] -= record.size;
  record.id = 0;
  page_->chunk_free = std::min(page_->chunk_free, static_cast<std::int32_t>(&record - page_->chunks));
}

std::uint64_t SharedState::AddChunk(int device, Bytes size) {
  const Guard guard(*this);
  if (!Fits(device, size)) return 0;
  ChunkRecord* record = FreeRecord();
  if (record == nullptr) return 0;
  const std::uint64_t id = (page_->next_chunk++ << kSlotBits) + (record - page_->chunks);
  Write(*record, id, device, size);
  return id;
}

bool SharedState::HoldChunk(std::uint64_t id, int device, Bytes size) {
  const Guard guard(*this);
  if (ChunkRecord* record = Find(id)) {
    record->holders[self_ / 64] |= Bit(self_);
    return true;
  }
  ChunkRecord* record = Fits(device, size) ? FreeRecord() : nullptr;
  if (record != nullptr) Write(*record, id, device, size);
  return record != nullptr;
}

void SharedState::DropChunk(std::uint64_t id) {
  const Guard guard(*this);
  ChunkRecord* record = Find(id);
  if (record == nullptr) return;
  record->holders[self_ / 64] &= ~Bit(self_);
  if (!Held(*record)) Free(*record);
}

Bytes SharedState::UsedBytes(int device) {
  const Guard guard(*this);
  Reap();
  return Sum(device);
}

cuda::Result SharedState::AddContext(int device) {
  const Guard guard(*this);
  std::atomic<std::uint32_t>& contexts = page_->processes[self_].contexts;
  if ((contexts >> device & 1) != 0) return cuda::kSuccess;
  if (settings_.exclusive) {
    Reap();
    for (int i = 0; i < kMaxProcesses; ++i) {
      const ProcessRecord& process = page_->processes[i];
      if (i != self_ && process.pid != 0 && (process.contexts >> device & 1) != 0)
        return cuda::kDeviceUnavailable;
    }
  }
  if (settings_.context_memory > 0 && !Fits(device, settings_.context_memory)) return cuda::kOutOfMemory;
  contexts |= 1u << device;
  return cuda::kSuccess;
}

bool SharedState::AddStream(int device) {
  if (settings_.stream_memory == 0) return true;
  const Guard guard(*this);
  if (!Fits(device, settings_.stream_memory)) return false;
  ++page_->processes[self_].streams[device];
  return true;
}

void SharedState::DropStream(int device) {
  if (settings_.stream_memory == 0) return;
  const Guard guard(*this);
  --page_->processes[self_].streams[device];
}

void SharedState::Leave() {
  const UniqueFd fd = OpenPage(path_, settings_.all_users);
  const Guard guard(*this);
  Bury(self_);
  Reap();
  if (IsEmpty()) unlink(path_.c_str());
}

bool SharedState::IsEmpty() const {
  for (const ProcessRecord& process : page_->processes) {
    if (process.pid != 0) return false;
  }
  return true;
}

bool SharedState::Lives(int index) {
  const Guard guard(*this);
  const ProcessRecord& process = page_->processes[index];
  return process.pid != 0 && process.dead_since_ns == 0 && ProcessLives(process.pid, process.start_time);
}

int SharedState::UseChunk(std::uint64_t id, std::uint64_t use, const std::uint64_t* known) {
  const Guard guard(*this);
  ChunkRecord* record = Find(id);
  if (record == nullptr) return -1;
  const int last = record->last_user;
  const std::uint64_t last_use = record->last_use;
  record->last_user = self_;
  record->last_use = use;
  if (last < 0 || last == self_ || last_use <= known[last]) return -1;
  const ProcessRecord& other = page_->processes[last];
  const bool finished = last_use <= other.finished_use || !ProcessLives(other.pid, other.start_time);
  return finished ? -1 : last;
}

void SharedState::FinishedUses(std::uint64_t use) { page_->processes[self_].finished_use = use; }

pid_t SharedState::PidOf(int index) const { return page_->processes[index].pid; }

int SharedState::AddEvent() {
  const Guard guard(*this);
  for (int i = 0; i < kMaxSharedEvents; ++i) {
    SharedEventRecord& event = page_->events[i];
    if (event.generation != 0) continue;
    event.recorded = 0;
    event.completed = 0;
    event.last_use = 0;
    event.owner = self_;
    event.recorder = self_;
    event.generation = page_->next_generation++;
    return i;
  }
  return -1;
}

void SharedState::DropEvent(int index) { page_->events[index].generation = 0; }

SharedEventRecord& SharedState::Event(int index) const { return page_->events[index]; }

timing::TimelineState& SharedState::Timeline(int device) const { return page_->timelines[device]; }

void SharedState::CheckInvariants() {
  const Guard guard(*this);
  for (int i = 0; i < page_->chunk_end; ++i) {
    const ChunkRecord& chunk = page_->chunks[i];
    if (chunk.id == 0) continue;
    HOCKET_CHECK(Held(chunk)) << "chunk " << i << " has an id and no holder";
    HOCKET_CHECK(chunk.device >= kOnHost && chunk.device < kMaxDevices)
        << "chunk " << i << " on device " << chunk.device;
    for (int p = 0; p < kMaxProcesses; ++p) {
      const bool held = (chunk.holders[p / 64] & Bit(p)) != 0;
      HOCKET_CHECK(!held || page_->processes[p].pid != 0)
          << "chunk " << i << " is held by nobody, record " << p;
    }
  }
  Bytes used[kMaxDevices] = {};
  for (int i = 0; i < page_->chunk_end; ++i) {
    const ChunkRecord& chunk = page_->chunks[i];
    HOCKET_CHECK(chunk.id != 0 || i >= page_->chunk_free) << "a free record is forgotten: " << i;
    if (chunk.id != 0 && chunk.device != kOnHost) used[chunk.device] += chunk.size;
  }
  for (int d = 0; d < devices_; ++d) {
    HOCKET_CHECK(used[d] == page_->used[d])
        << "device " << d << ": " << used[d] << ", counted " << page_->used[d];
    HOCKET_CHECK(Sum(d) <= memory_) << "device " << d << " uses " << Sum(d) << " of " << memory_;
  }
}

}  // namespace hocket::emulator
