// What the allocator's tests stand on: the emulated driver's library behind a table that can count and fail
// calls, bytes on the device, and a scripted gate.
#ifndef HOCKET_TESTS_ALLOCATOR_EMULATED_GPU_H_
#define HOCKET_TESTS_ALLOCATOR_EMULATED_GPU_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "allocator/caching_allocator.h"
#include "allocator/driver.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::testing {

// The emulated device of this test process: 256 MiB under a name of its own, unless the environment says
// otherwise. One for the whole process, as a driver is.
class EmulatedGpu {
 public:
  static EmulatedGpu& Get();

  Driver& driver() { return *driver_; }
  // On the calling thread, if it uses none yet.
  void UseContext();
  Bytes capacity();
  // Device memory that is given out, to whom ever.
  Bytes used();

  void Fill(DevicePtr address, Bytes size, unsigned char value);
  // True if all bytes are `value`.
  bool Holds(DevicePtr address, Bytes size, unsigned char value);
  std::vector<unsigned char> Read(DevicePtr address, Bytes size);
  // A kernel called `name` reads or writes these bytes on `stream`, by `compute`; check mode remembers the
  // use.
  void RunKernel(const char* name, Stream stream, DevicePtr address, Bytes size, bool writes,
                 absl::FunctionRef<void()> compute);
  // One that computes nothing.
  void ReadInKernel(const char* name, Stream stream, DevicePtr address, Bytes size) {
    RunKernel(name, stream, address, size, /*writes=*/false, [] {});
  }
  // What is queued on `later` from now on waits for what is queued on `earlier`.
  void WaitForStream(Stream later, Stream earlier);
  // Keeps `stream` at work until `*go` is set.
  void KeepBusy(Stream stream, std::atomic<bool>* go);
  // The byte at `address` as the host may touch it, at once and in no stream's order.
  unsigned char* Host(DevicePtr address) const {
    return reinterpret_cast<unsigned char*>(address + alias_offset_);
  }

  // From now on the `n`-th call (1: the next) that asks the driver for something fails with `error`; calls
  // that give something back or only name things always succeed.
  void FailCall(int n, cuda::Result error);
  // The driver's capture of a graph on `stream`; one that has failed leaves no graph.
  void BeginCapture(Stream stream);
  void EndCapture(Stream stream);
  // A kernel has failed with `error`, for good: for a process that ends with the test.
  void FailKernel(cuda::Result error);
  // Calls named `name` ("MemHostRegister") fail with `error` until FailNoCall().
  void FailEvery(const std::string& name, cuda::Result error);
  // The next one does.
  void FailNext(const std::string& name, cuda::Result error);
  // Calls named `name` do nothing and succeed until FailNoCall(): a mistake, seeded.
  void SkipEvery(const std::string& name);
  void FailNoCall();
  // The next call named `name` begins with this, unless FailNoCall() comes before.
  void OnNext(const std::string& name, std::function<void()> happens);
  // The `n`-th call from now on (1: the next; 0: none) that reserves, takes, maps, copies or gives back
  // memory begins with this, unless FailNoCall() comes before. Those of events and of questions are not
  // counted: how many they are depends on times.
  void OnMemoryCall(int n, std::function<void()> happens);
  // Whether the driver says that it maps host memory at device addresses, until FailNoCall().
  void SetMapsHostMemory(bool maps);
  // The driver has no cuCtxRecordEvent, as before CUDA 12.5, until FailNoCall().
  void TakeContextEventsAway();
  // The driver refuses to map memory for reading only, until FailNoCall().
  void ForbidReadOnly();
  // True if a call has failed since FailCall(), until FailNoCall().
  bool Failed() const { return !FailedCall().empty(); }
  // Which one: "MemCreate". Empty: none.
  std::string FailedCall() const;
  // Of what the driver has given (addresses, memory of the device and of the host, pinned memory, streams,
  // events) how many it has not been given back, by the name of the call that gives it.
  std::map<std::string, int> Given() const;
  // Calls of each function since ForgetCalls(), by its name.
  std::map<std::string, int> Calls() const;
  void ForgetCalls();

 private:
  EmulatedGpu();
  void Copy(std::function<absl::Status(Stream)> copy);

  std::unique_ptr<Driver> driver_;
  Stream stream_ = nullptr;
  std::ptrdiff_t alias_offset_ = 0;
  decltype(&hocket_emulator_begin_kernel) begin_kernel_ = nullptr;
  decltype(&hocket_emulator_end_kernel) end_kernel_ = nullptr;
  decltype(&hocket_emulator_lose) lose_ = nullptr;
  cuda::Result (*begin_capture_)(Stream, int) = nullptr;
  cuda::Result (*end_capture_)(Stream, void**) = nullptr;
  cuda::Result (*wait_event_)(Stream, cuda::Event, unsigned) = nullptr;
  cuda::Result (*launch_host_function_)(Stream, void (*)(void*), void*) = nullptr;
};

// True if the `size` bytes from `bytes` on are all `value`.
bool AllAre(unsigned char value, const unsigned char* bytes, Bytes size);

// A gate whose answers the test gives. Holds the turn until told otherwise.
class ScriptedGate : public Gate {
 public:
  bool HoldsTurn() const override { return holds_turn; }
  absl::Status AwaitTurn() override { return await_turn(); }
  absl::Status AwaitRoom(Bytes bytes) override { return await_room(bytes); }
  void LacksHeadroom(Bytes bytes) override { lacking.push_back(bytes); }
  void ArenaGrew(ArenaChunkId chunk, Bytes size, UniqueFd descriptor) override;
  void ArenaLost(ArenaChunkId chunk) override;

  std::atomic<bool> holds_turn{true};
  std::function<absl::Status()> await_turn;
  std::function<absl::Status(Bytes)> await_room;
  std::function<void(ArenaChunkId, Bytes, UniqueFd)> grew = [](ArenaChunkId, Bytes, UniqueFd) {};
  std::function<void(ArenaChunkId)> lost = [](ArenaChunkId) {};
  std::vector<Bytes> lacking;  // headroom, each time that it was said

  ScriptedGate();
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_EMULATED_GPU_H_
