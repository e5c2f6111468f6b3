// A job's side of Hocket: joins a coordinator, begins and ends steps, and obeys.
//
//   training thread --BeginStep/EndStep--> state word <--agent thread-- coordinator
//   PyTorch         --Malloc-------------> allocator --Gate--> (this)
//
// While nobody waits, a step costs one atomic operation at each end and nothing is sent, drained or
// copied. A thread waits for the turn only at Hocket's doors: BeginStep(), a blocked allocation, EndAway().
//
// One Client per process and device. Thread-safe. If the coordinator dies, the holder runs on; the first
// client to notice starts another, and all join again. Where none can be had any more, a job runs as soon as
// it gets its lane's lock, keeps the turn until there is a coordinator again or it ends, and
// Info().coordinated is false; jobs that do not get the lock wait for it. A forked child has no part in its
// parent's job: in it every call here does nothing.
#ifndef HOCKET_CSRC_CLIENT_CLIENT_H_
#define HOCKET_CSRC_CLIENT_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "allocator/caching_allocator.h"
#include "allocator/gate.h"
#include "csrc/client/job_options.h"

namespace hocket {

// Calls what it is given, which returns true to end the wait.
using InOwnCode = absl::FunctionRef<void(absl::FunctionRef<bool()>)>;

// Called around every place where a thread blocks for the turn, on that thread. The Python bindings
// release and take the interpreter's lock here.
struct BlockingHooks {
  std::function<void*()> before;  // returns a token for `after`
  std::function<void(void*)> after;
  // Asked a few times a second, between `before` and `after`, while a thread waits at a door. It calls
  // `in_own_code` with what may run the program's code (a signal's handlers) and says whether that ends the
  // wait (Ctrl-C): then the call fails with kCancelled and has done nothing. Meanwhile the thread stands at
  // no door, so that nothing of its job moves but what a turn brings back, and that code may make steps and
  // allocate. A turn that the thread was taking goes back where that code lasts. While bytes move
  // `in_own_code` calls nothing: the question comes again.
  std::function<void(InOwnCode in_own_code)> interrupted;
};
void SetBlockingHooks(BlockingHooks hooks);

class Client : public Gate {
 public:
  // Finds (or starts) the coordinator and joins. `device_uuid` and `capacity` come from the driver.
  // kInvalidArgument: an option out of range, with the value and the range. kUnavailable: no coordinator
  // can be reached or started; the text says what was tried.
  static absl::StatusOr<std::unique_ptr<Client>> Join(const JobOptions& options,
                                                      const std::string& device_uuid,
                                                      const std::string& device_name, Bytes capacity);

  // The device's memory, which must outlive every turn; set once, before the first step. Without one (jobs on
  // the CPU) turns are passed and nothing is moved.
  virtual void SetAllocator(CachingAllocator* allocator) = 0;

  // Waits for the turn if this process does not have it. kCancelled, without having begun: the user
  // interrupted the wait (BlockingHooks). Steps nest: a step inside a step of the same
  // thread is part of the outer one. Several threads may be in steps at once; they share the turn.
  // If others wait, and the device has not been used in the steps under way for five seconds and ten average
  // steps, the turn passes in their midst: the thread waits for somebody, perhaps for one of those. The next
  // allocation, or step inside it, waits for another turn. Not of a gang's rank, nor without an allocator.
  // `guessed`: the program has not said this step, so where it ends is not sure: one second where all are
  // such. A step inside it that is not guessed makes it one that is not.
  virtual absl::Status BeginStep(bool guessed = false) = 0;
  // From now on a step keeps its turn to its end: the process has the turns of other devices meanwhile.
  virtual void KeepTurnInSteps() = 0;
  // Ends the step; passes the turn on if somebody waits for it and no other thread is in a step.
  // `count`: whether this was a step (false: a scope such as an evaluation that is not counted).
  virtual void EndStep(bool count = true) = 0;

  // From here to EndAway() the calling thread does not use the device: it waits for data, say. If all threads
  // are away or at doors the job can be moved, though the turn is over and no step has begun. Does nothing in
  // a step, inside another one, and on a thread that has neither made a step nor allocated. A step or an
  // allocation in it ends it.
  virtual void BeginAway() = 0;
  // Waits for a turn, like an allocation, where bytes have been moved to the host meanwhile. The step that
  // comes next is made in that turn. On an error (kCancelled: Ctrl-C) the thread is back all the same, and
  // what was moved is still on the host: the next step brings it back.
  virtual absl::Status EndAway() = 0;

  // From here to EndUse() the calling thread uses device memory that is there already. For a thread that has
  // neither made a step nor allocated, and one of autograd's, which may work for such a thread, or a parked
  // one: others are known to use the device, here it does nothing. Meanwhile nothing of the job is moved.
  // Waits for a turn, like an allocation, where bytes are on the host; errors as of EndAway(). A step or an
  // allocation makes the thread one that is known.
  virtual absl::Status BeginUse() = 0;
  // Returns whether the thread is known, so that neither call does anything on it any more. Without a use it
  // does nothing.
  virtual bool EndUse() = 0;

  // Whether threads are away that have not said so (parking.h).
  virtual bool HasParked() const = 0;
  // The calling thread is about to use the device, or may be. If it is parked it comes back, as by EndAway().
  virtual absl::Status EndParked() = 0;

  // Whether this process has the turn. (HoldsTurn() is the allocator's question: who asks it is about to
  // allocate.)
  virtual bool HasTurn() const = 0;

  // This process is one rank of a gang: see csrc/wire/messages.h, Gang.
  virtual void JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) = 0;

  // Ends the step and the turn, leaves the coordinator; the process may go on outside (its memory stays
  // where it is, its allocations no longer wait).
  virtual void Leave() = 0;

  virtual JobInfo Info() const = 0;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_CLIENT_H_
