// Making something on the device that takes memory which no allocator sees (a context), where others may have
// to make room for it.
#ifndef HOCKET_CSRC_CLIENT_MAKE_IN_STEP_H_
#define HOCKET_CSRC_CLIENT_MAKE_IN_STEP_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "csrc/base/bytes.h"
#include "csrc/client/client.h"

namespace hocket {

// Calls `make` until it succeeds, in a step of `client` that is not counted: so nobody else has the turn
// while it is made, and whoever gave room does not take it back meanwhile. While it fails with
// kResourceExhausted others are asked for `room` bytes. Waits for the turn, and for room as an allocation
// does; the caller holds no lock that anybody else may want. What `make` fails with otherwise,
// kResourceExhausted with who holds what where nobody can give room, or kCancelled (Ctrl-C).
absl::Status MakeInStep(Client& client, Bytes room, absl::FunctionRef<absl::Status()> make);

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_MAKE_IN_STEP_H_
