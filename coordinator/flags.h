// What hocketd is told when it is started: on its command line, and before that by the environment, into
// which Hocket puts what its config file says (python/hocket/_config.py).
#ifndef HOCKET_COORDINATOR_FLAGS_H_
#define HOCKET_COORDINATOR_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/server/server.h"

namespace hocket::coordinator {

extern const char kHelp[];

struct Flags {
  bool foreground = false;
  std::string log_level = "info";
  ServerOptions server;
};

// The environment, and over it "--name=value" and "--name value". kInvalidArgument names the variable or
// flag, its value and what it may be. Whatever the config file's reader lets through is taken
// (tests/fuzz/config_fuzz.cc).
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_FLAGS_H_
