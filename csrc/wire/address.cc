#include "csrc/wire/address.h"

#include <sys/socket.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace hocket::wire {

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path, const char* what) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat(
        "cannot ", what, " ", path, ": the path has ", path.size(), " characters, a socket's may have ",
        sizeof(address.sun_path) - 1, ". Name a shorter folder in HOCKET_RUNTIME_DIR."));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace hocket::wire
