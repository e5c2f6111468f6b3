// A path as a Unix socket's address.
#ifndef HOCKET_CSRC_WIRE_ADDRESS_H_
#define HOCKET_CSRC_WIRE_ADDRESS_H_

#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"

namespace hocket::wire {

// kUnavailable, "cannot <what> <path>: ..." with both lengths, when the path is longer than a socket's may
// be.
absl::StatusOr<sockaddr_un> AddressOf(const std::string& path, const char* what);

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_ADDRESS_H_
