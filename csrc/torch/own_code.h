// What a program does where nobody expects it to use the device: a signal's handler that runs while its
// thread waits for the turn, or is away; where a handler has raised (Ctrl-C), what the program does after it;
// threads that use what others have allocated, a logging one, say; and threads that have been parked.
//
// Its memory may lie on the host then, or move, and nobody brings it back for code that does not ask: a
// handler that saves a model, or `except KeyboardInterrupt: torch.save(...)`. So on such a thread an operator
// of PyTorch's that uses spilled memory waits for the turn first, as an allocation does, and one that comes
// while the thread is away ends that. From then on until the thread waits again nothing of the job moves; on
// a thread that visits, until the operator ends.
//
// What goes past PyTorch's operators (a kernel of one's own, a CUDA graph) is not seen.
#ifndef HOCKET_CSRC_TORCH_OWN_CODE_H_
#define HOCKET_CSRC_TORCH_OWN_CODE_H_

#include "absl/functional/function_ref.h"
#include "csrc/torch/devices.h"

namespace hocket {

// Whose memory. `devices` is borrowed and lives until the process ends. Before it is said nothing is brought
// back.
void BringBackForOwnCode(const Devices& devices);

// Calls `handlers`, which return true if one has raised, and returns that. Then what follows on this thread
// is own code, too, until the job has the turn. REQUIRES: called within BlockingHooks::interrupted.
bool RunOwnCode(absl::FunctionRef<bool()> handlers);

// This thread is away, or no longer.
void SetAway(bool away);

// This thread may be one that visits (Client::BeginUse): its operators are watched until it is known. Costs
// nothing where nothing is brought back.
void WatchVisitor();
// It is known: it makes a step.
void VisitorIsKnown();

// Threads have been parked, or may have been (csrc/client/parking.h): from now on an operator on any of them
// brings its thread back, until none is parked.
void WatchParked();

// Whether an operator on this thread waits for what is spilled.
bool WaitsForSpilled();

// In a child just forked: its operators are watched no more.
void ForgetOwnCode();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_OWN_CODE_H_
