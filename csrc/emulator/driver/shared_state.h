// The emulated devices as all processes of a user see them: a page of tables in /dev/shm, under
// hocket-emulator-<uid>-<name>; or all processes of all users (hocket-emulator-all-<name>: whoever may use
// the page may spoil it).
//
//   processes   who uses the devices: pid and start time; dead ones linger for the teardown delay
//   chunks      device memory: an id, a device, a size and the set of processes that hold it
//   events      interprocess events: how often recorded, how often completed
//
// Nothing here is a running total: what a device has in use is the sum over the chunk table, so a process
// killed at any instruction leaves no wrong figure. A chunk counts while its id is set and one holder is
// left; the id is written last and cleared first. The lock is robust: who finds its owner dead
// repairs (drops half-written entries) and goes on. A process found dead keeps its memory for the
// teardown delay, as a GPU's driver does, then its holds are dropped.
//
// The first process creates the page with its settings. Later ones get the devices that exist, and a
// message where they asked for others; when no living process is left the next one's settings hold.
//
// Thread-safe and process-safe. In a forked child nothing may be called.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_SHARED_STATE_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_SHARED_STATE_H_

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "allocator/cuda_abi.h"
#include "csrc/base/bytes.h"
#include "csrc/emulator/driver/settings.h"
#include "csrc/emulator/timing/timeline.h"

namespace hocket::emulator {

inline constexpr int kMaxProcesses = 256;
inline constexpr int kMaxChunks = 1 << 15;
inline constexpr int kMaxSharedEvents = 1024;
// In a device's place: a chunk of host memory, which counts against no device.
inline constexpr int kOnHost = -1;

struct ProcessRecord {
  std::int64_t start_time;                          // of the pid, in clock ticks since boot
  std::int64_t dead_since_ns;                       // monotonic; 0 while it lives
  std::atomic<std::int32_t> pid;                    // 0: the record is free. Written last.
  std::atomic<std::uint32_t> contexts;              // bit per device whose context exists
  std::atomic<std::uint64_t> finished_use;          // check mode: every use up to here is known to be done
  std::atomic<std::uint32_t> streams[kMaxDevices];  // that it has made on each device
};

struct ChunkRecord {
  std::uint64_t size;
  std::int32_t device;
  std::int32_t last_user;  // check mode: process index of the last use, -1: none
  std::uint64_t last_use;  // check mode: that process's number of it
  std::uint64_t holders[kMaxProcesses / 64];
  std::atomic<std::uint64_t> id;  // 0: the record is free. Written last.
};

struct SharedEventRecord {
  std::atomic<std::uint64_t> generation;  // 0: the record is free
  std::atomic<std::uint32_t> recorded;
  std::atomic<std::uint32_t> completed;  // a futex
  std::atomic<std::uint64_t> last_use;   // check mode: the recorder's uses that it covers
  std::atomic<std::int32_t> owner;       // process index of the creator
  std::atomic<std::int32_t> recorder;    // process index of the last recorder
};

struct SharedLayout;

// Whose the devices are, as part of their names: a uid, or "all".
std::string OwnerOf(const Settings& settings);

class SharedState {
 public:
  // Maps the page and enters this process. Ends the process, with the reason, where /dev/shm refuses.
  explicit SharedState(const Settings& settings);
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  int devices() const { return devices_; }
  Bytes memory() const { return memory_; }
  // Differs between pages; part of every chunk's name.
  std::uint64_t token() const { return token_; }
  // This process's place in the process table.
  int self() const { return self_; }

  // Enters a chunk of `size` held by this process; 0 when the device is full (dead processes' memory that
  // is past its teardown delay counts as free) or the table is.
  std::uint64_t AddChunk(int device, Bytes size);
  // Adds this process to the holders of chunk `id`, which another process exported. A chunk that all have
  // let go of meanwhile is entered again. False when the device cannot hold it.
  bool HoldChunk(std::uint64_t id, int device, Bytes size);
  // This process holds the chunk no more.
  void DropChunk(std::uint64_t id);

  Bytes UsedBytes(int device);
  // The context of `device` exists in this process: its overhead counts. kOutOfMemory: it does not fit;
  // kDeviceUnavailable: another process has one, where only one may.
  cuda::Result AddContext(int device);
  // A stream is made on `device`, or destroyed: what it takes counts. False: it does not fit.
  bool AddStream(int device);
  void DropStream(int device);

  // This process ends in good order: its holds are dropped and its record is freed. The last one removes
  // the page.
  void Leave();

  // True while the process at `index` is the one it was, and lives.
  bool Lives(int index);

  // --- check mode ---
  // Notes use number `use` of chunk `id` by this process. Returns the process whose last use is not known to
  // be done (neither by its own waits nor by what this process has waited for: `known`), -1: none.
  int UseChunk(std::uint64_t id, std::uint64_t use, const std::uint64_t* known);
  void FinishedUses(std::uint64_t use);
  pid_t PidOf(int index) const;

  // --- interprocess events; an index and its generation name one ---
  int AddEvent();  // -1: the table is full
  void DropEvent(int index);
  SharedEventRecord& Event(int index) const;

  // Timing mode: the device's time, handed out among all processes.
  timing::TimelineState& Timeline(int device) const;

  // Aborts, naming the first record that is inconsistent. For tests.
  void CheckInvariants();

 private:
  class Guard;

  void Map(const std::string& path);
  void Create(const Settings& settings);
  void Adopt(const Settings& settings);
  bool SomebodyLives();
  bool IsEmpty() const;
  void Enter();
  // REQUIRES: the lock, for all below.
  void Repair();
  void Reap();
  void Bury(int index);
  Bytes Sum(int device) const;
  bool Fits(int device, Bytes size);
  ChunkRecord* Find(std::uint64_t id) const;
  ChunkRecord* FreeRecord() const;
  void Write(ChunkRecord& record, std::uint64_t id, int device, Bytes size) const;
  void Free(ChunkRecord& record) const;
  void CountChunks();

  SharedLayout* page_ = nullptr;
  int devices_ = 0;
  Bytes memory_ = 0;
  std::uint64_t token_ = 0;
  int self_ = -1;
  const std::string path_;
  Settings settings_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_SHARED_STATE_H_
