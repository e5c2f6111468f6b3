// What the system refused, in one form everywhere: what was tried, what stood in the way, what to do.
#ifndef HOCKET_CSRC_BASE_CANNOT_H_
#define HOCKET_CSRC_BASE_CANNOT_H_

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hocket {

// kUnavailable, "cannot <what>: <the error's text>." and, for a full disk, used up descriptors and a foreign
// folder, what to do about it. `error` is an errno.
absl::Status Cannot(absl::string_view what, int error = errno);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_CANNOT_H_
