// All that a process has of Hocket: PyTorch's allocator, the job on each device, the steps. What the Python
// bindings and hocket::Job call; nothing below it knows PyTorch, nothing above it knows a device.
//
//   Install()    before CUDA starts: Hocket's allocator becomes PyTorch's; or
//   KeepNative() at any time: PyTorch keeps its own allocator, and gets its memory from Hocket
//   Configure()  what the job says of itself; any time before it joins
//   Join()       at the first need: the first allocation on a device, or the first step
//
// Thread-safe. Never destroyed: tensors may be freed while the process ends. A child that was forked while
// no device was in use is a process like any other: what it uses, it joins for. In any other forked child
// every call does nothing.
#ifndef HOCKET_CSRC_TORCH_PROCESS_H_
#define HOCKET_CSRC_TORCH_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "csrc/client/parking.h"
#include "csrc/torch/devices.h"
#include "csrc/torch/export.h"

namespace c10 {
struct TensorImpl;
}

namespace hocket {

class CudaAllocator;
class NativeAllocator;

class HOCKET_EXPORT Process {
 public:
  struct DeviceHoldings {
    int device = 0;
    std::string uuid;
    Holdings held;
  };

  // Never one twice in a process.
  using StepId = std::uint64_t;

  static Process& Get();

  // The version of the torch that this was compiled against, as torch.__version__ says it.
  static std::string BuiltFor();

  // Makes Hocket's allocator PyTorch's current one. Again: does nothing. kFailedPrecondition: CUDA has
  // started already; the text says what to do. The process may still join, and then only takes turns.
  absl::Status Install();

  // PyTorch's native allocator stays; from now on its memory is Hocket's to spill and restore. Gives the
  // bytes that it holds already, on all devices: they stay where they are. Again: does nothing.
  // kFailedPrecondition: PyTorch uses another allocator, or none, or devices may have access to each other's
  // memory already. kNotFound: its calls of cudaMalloc cannot be redirected. The text says what stood in the
  // way; the process may still join, and then only takes turns.
  absl::StatusOr<Bytes> KeepNative();

  // This is a child forked off a process that used a device: it has no part in that, and can use none.
  bool forked() const { return forked_; }

  // Whose allocator manages this process's device memory: "hocket", "native", or "off": PyTorch's alone.
  std::string AllocatorInUse() const;

  void Configure(const JobOptions& options);
  // See SetBlockingHooks() in csrc/client/client.h.
  void SetHooks(BlockingHooks hooks);
  // Who calls PyTorch, in lines: for the debug mode (out_of_turn.h).
  void SetStackOfCaller(std::string (*stack)());
  // See interruption.h.
  void SetTakeRaised(std::exception_ptr (*take)());
  void SetRaiseSoon(void (*raise)(std::exception_ptr raised));
  // See own_code.h.
  bool RunOwnCode(absl::FunctionRef<bool()> handlers);
  void WatchVisitor();
  // See csrc/client/parking.h.
  void SetParkingHook(ParkingHook hook);

  // Joins as a job of the current device if CUDA has started, else of the lane "cpu". Again: does nothing.
  // kInvalidArgument: an option out of range. Where no coordinator can be had it says so on stderr, once,
  // and is OK: steps run without turns.
  absl::Status Join();

  // Joins if need be and waits for the turn on every device in use. On an error no step has begun. A device
  // that this thread puts to use in a step takes part from there on; so a first step that begins before CUDA
  // waits there. `guessed`: see Client. Where several devices are in use, steps keep their turns to their
  // ends.
  absl::Status BeginStep(bool guessed = false);
  // Ends the step that this thread began last.
  void EndStep(bool count);
  // The same, for steps that may end in another order, or on another thread, than they began. The step that
  // this thread began last; 0: it is in none.
  StepId LastStep() const;
  // Ends that step, and with it those that began in it. Does nothing for one that has ended already.
  // kFailedPrecondition: another thread began it; it ends when that one next begins a step, or ends.
  absl::Status EndStep(bool count, StepId step);
  // Ends every step that this thread is in, none of them counted.
  void EndSteps();

  // See Client: on every device in use. Nothing where there is none. Where EndAway() fails on one device, the
  // thread may still be away on others, until its next step or allocation there.
  void BeginAway();
  absl::Status EndAway();

  // Promises that nobody writes to the memory of this tensor from now on (promise.h, constants.h), until that
  // is freed or EndConstant(). `name`: for messages. Returns its size; 0: it is not Hocket's to move. An
  // error as of CachingAllocator::DeclareConstant. REQUIRES: the tensor has storage.
  absl::StatusOr<Bytes> DeclareConstant(const c10::TensorImpl& tensor, const std::string& name);
  void EndConstant(DevicePtr address);

  // When the block at this address has to be back, and waiting for those of a stage, on every device in use,
  // before what the current streams are given next (CachingAllocator). SetStage() returns its size; 0: it is
  // not Hocket's to move.
  absl::StatusOr<Bytes> SetStage(DevicePtr address, Stage stage);
  absl::Status AwaitStage(Stage stage);

  // There may be (no longer be) threads that use a device and have allocated nothing there yet: see
  // CachingAllocator::ExpectStrays().
  void ExpectStrays(bool expected);

  void JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size);

  // Gives turns back and leaves; the process goes on outside.
  void Leave();
  // The same for a process that is about to end: waits for at most a second, and brings nothing back from the
  // host.
  void LeaveAtExit();

  // Of the first device in use. `joined` and not `coordinated`: no coordinator was to be had, or this process
  // has left.
  JobInfo Info() const;
  std::vector<DeviceHoldings> Held() const;

 private:
  Process();

  void AfterForkInChild();
  // Nothing says yet whether this is a job of a device or of the CPU: there is a device, not used so far.
  bool Undecided();
  // Ends those of this thread's steps that others have tried to end.
  void EndAbandoned();
  // Begins the step that this thread is in, if it is in one, on `client` too.
  static absl::Status BeginLate(Client* client);

  // Constant after Install().
  std::shared_ptr<CudaAllocator> allocator_;
  std::atomic<NativeAllocator*> native_{nullptr};  // constant after KeepNative()
  std::atomic<bool> installed_{false};
  std::atomic<bool> forked_{false};   // off a process that used a device
  std::atomic<bool> stepped_{false};  // a step has begun
  std::atomic<int> abandoned_{0};     // steps that were ended on other threads than those that are in them
  absl::Mutex mutex_;
  std::vector<StepId> abandoned_steps_ ABSL_GUARDED_BY(mutex_);
  Devices devices_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_PROCESS_H_
