#include "csrc/client/make_in_step.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

absl::Status MakeWithTurn(Client& client, Bytes room, absl::FunctionRef<absl::Status()> make) {
  for (absl::Status given; true;) {
    // In the midst of a step, too, it may have gone to others while room was waited for.
    if (!client.HoldsTurn()) HOCKET_RETURN_IF_ERROR(client.AwaitTurn());
    const absl::Status made = make();
    if (!absl::IsResourceExhausted(made)) return made;
    if (!given.ok()) {
      return absl::ResourceExhaustedError(absl::StrCat(std::string(made.message()),
                                                       ": it finds no room on the device.\n  ",
                                                       std::string(given.message())));
    }
    given = client.AwaitRoom(room);
    if (!given.ok() && !absl::IsResourceExhausted(given)) return given;
  }
}

}  // namespace

absl::Status MakeInStep(Client& client, Bytes room, absl::FunctionRef<absl::Status()> make) {
  HOCKET_RETURN_IF_ERROR(client.BeginStep());
  const absl::Status made = MakeWithTurn(client, room, make);
  client.EndStep(/*count=*/false);
  return made;
}

}  // namespace hocket
