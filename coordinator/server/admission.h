// Who may join, with what values. Everything a stranger sends is checked here before the core sees it.
#ifndef HOCKET_COORDINATOR_SERVER_ADMISSION_H_
#define HOCKET_COORDINATOR_SERVER_ADMISSION_H_

#include <string>

#include "absl/status/status.h"
#include "csrc/wire/messages.h"

namespace hocket::coordinator {

// kInvalidArgument: a sentence for the user that names the value and the range.
absl::Status CheckJoin(const wire::Join& join);

// The same for values that people set later.
absl::Status CheckWeight(double weight);
absl::Status CheckPriority(const std::string& priority);
absl::Status CheckSwitchShare(double share);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_ADMISSION_H_
