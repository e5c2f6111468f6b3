// The devices that this process uses. Each has a client (its job there) and, where Hocket's allocator is
// PyTorch's, an allocator; both are made at the device's first use and live until the process ends.
//
//   first use of device 0 -> join the coordinator as a job of device 0 -> allocator of device 0
//   a step before any use -> join the lane "cpu"; left again when a device is used after all
//   no coordinator to be had -> no client: allocations and steps go on without turns, which is said once
//
// Thread-safe. A device in use is found with one atomic load.
#ifndef HOCKET_CSRC_TORCH_DEVICES_H_
#define HOCKET_CSRC_TORCH_DEVICES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "allocator/caching_allocator.h"
#include "allocator/driver.h"
#include "csrc/client/client.h"

namespace hocket {

class Devices {
 public:
  struct Device {
    int ordinal = 0;
    std::string uuid;
    std::string name;
    Bytes capacity = 0;
    std::unique_ptr<Gate> open_gate;              // in the client's place where there is no client
    std::unique_ptr<Client> client;               // none: not coordinated
    std::unique_ptr<CachingAllocator> allocator;  // none: PyTorch's own is in use
    // What PyTorch held here before Hocket came: it stays where it is, and counts.
    Bytes unmanaged = 0;

    // What the job may use of the device, and what is left of it. REQUIRES: it has an allocator.
    Bytes Limit() const;
    Bytes Room() const;
  };
  // Never changes once made: a new one takes its place.
  struct Table {
    std::vector<Device*> devices;  // in use, ordered by UUID
    // The jobs that take part in a step, in the same order, so that two processes which use the same devices
    // ask for their turns in the same order.
    std::vector<Client*> participants;
  };

  // The debug mode (HOCKET_VERIFY=1) is on.
  static bool Verifies();

  // What the job says of itself; used for every join from now on.
  void Configure(const JobOptions& options);
  JobOptions options() const;

  // Called on the thread that has put a device to use, with the new job there; no lock is held.
  void OnJoin(std::function<absl::Status(Client*)> hook) { on_join_ = std::move(hook); }

  // From now on a device's first use makes an allocator too. To be called before the first use. `segments`:
  // it serves segments (AllocatorOptions), of an allocator that holds `unmanaged` bytes of each device
  // already, by ordinal.
  void ManageMemory() { manages_memory_ = true; }
  void ManageSegments(std::function<void(int ordinal)> shed_cache, std::vector<Bytes> unmanaged);

  // Settings of PyTorch's allocator that the program has set: those that mean something here are heeded from
  // now on, and those that have no effect are named, each once. Those of the environment are heeded before
  // these, and at the first use of a device. REQUIRES: ManageMemory().
  void HeedSettings(std::string_view settings);
  // An allocation beyond the job's limit is to fail at once, without anybody giving memory back for it.
  bool RejectsEarly() const { return rejects_early_.load(std::memory_order_relaxed); }

  // The device, put to use if it is not yet. kInvalidArgument: an option out of range. Any other error: the
  // device cannot be used with Hocket; the text says why.
  absl::StatusOr<Device*> Use(int ordinal);
  // nullptr: not in use.
  Device* Find(int ordinal) const;
  // The device whose allocator gives out blocks at `address`; nullptr: none does. Takes no lock: a free does
  // not wait for another device's allocator.
  Device* OwnerOf(DevicePtr address) const;
  // This process is a job somewhere, or has found that it cannot be coordinated.
  bool joined() const { return joined_.load(std::memory_order_acquire); }
  const Table& table() const { return *table_.load(std::memory_order_acquire); }

  // Joins the lane "cpu", unless this process has joined already or is a forked child.
  absl::Status UseCpu();

  // This process's place in a gang, for the jobs that it is and will be.
  void JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size);

  // Said to each device's allocator, now and when it is made. Until the first call: true.
  void ExpectStrays(bool expected);

  // Every job of this process leaves; devices put to use later are not coordinated.
  void Leave();

  // To be called in a child just forked, where no other thread exists. True: the parent had opened no driver,
  // and the child is a process that has not joined yet, in no gang. It will not join the lane "cpu": its
  // parent may wait for it in a step there. False: it has no part in its parent's devices and cannot use any.
  bool StartAnewInChild();

 private:
  struct GangPlace {
    std::string gang;
    std::uint64_t rank = 0;
    std::uint64_t size = 0;
  };

  // A context that finds no room: for whom and how many bytes to ask.
  struct WithoutContext {
    Client* client = nullptr;  // lives as long as the process
    Driver* driver = nullptr;
    Bytes room = 0;
  };
  // The device and, if this call put it to use, its client in `*joined`. An error with a client in `*lacks`:
  // it can be put to use once its context is made. Waits for nobody, so who holds Python's lock may call it.
  absl::StatusOr<Device*> FindOrMake(int ordinal, Client** joined, WithoutContext* lacks);
  absl::StatusOr<Driver*> OpenDriver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Joined, and without an allocator.
  absl::StatusOr<std::unique_ptr<Device>> Begin(int ordinal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The client of a job on that device; none where no coordinator can be had.
  absl::StatusOr<std::unique_ptr<Client>> Join(const std::string& uuid, const std::string& name,
                                               Bytes capacity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HeedEnvironment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Heed(const std::string& where_from, std::string_view settings) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Half the options of PyTorch's allocator speak of its own way to keep memory.
  void SayWhatHasNoEffect(const std::string& where_from, std::vector<std::string> names)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LimitToOwn(Device& device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeAllocator(Device& device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveCpu() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<absl::Status(Client*)> on_join_;  // constant after the first OnJoin()
  // Constant after ManageSegments().
  std::function<void(int)> shed_cache_;
  std::vector<Bytes> unmanaged_;
  std::atomic<bool> manages_memory_{false};
  std::atomic<bool> rejects_early_{false};
  std::atomic<bool> joined_{false};             // or found that it cannot be coordinated
  std::atomic<const Table*> table_{new Table};  // old ones are kept: a thread in a step may hold one

  mutable absl::Mutex mutex_;
  JobOptions options_ ABSL_GUARDED_BY(mutex_);
  GangPlace gang_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  bool expects_strays_ ABSL_GUARDED_BY(mutex_) = true;
  bool joins_cpu_ ABSL_GUARDED_BY(mutex_) = true;
  bool said_uncoordinated_ ABSL_GUARDED_BY(mutex_) = false;
  bool heeded_environment_ ABSL_GUARDED_BY(mutex_) = false;
  double own_fraction_ ABSL_GUARDED_BY(mutex_) = 1;  // of each device, as the program said last
  std::set<std::string> said_without_effect_ ABSL_GUARDED_BY(mutex_);  // names of options
  std::unique_ptr<Driver> driver_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Client> cpu_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Device>> devices_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Device>> begun_ ABSL_GUARDED_BY(mutex_);  // not in use yet
};

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_DEVICES_H_
