// A device of the test's own: included by a test binary, it gives the process an emulated GPU whose name is
// the process's, of 64 MiB and in check mode where the environment says nothing else.
#ifndef HOCKET_TESTS_EMULATOR_OWN_DEVICE_H_
#define HOCKET_TESTS_EMULATOR_OWN_DEVICE_H_

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace hocket {

inline const bool kOwnDevice = [] {
  setenv("HOCKET_EMULATOR_NAME", ("test-" + std::to_string(getpid())).c_str(), 0);
  setenv("HOCKET_EMULATOR_MEMORY", "64MiB", 0);
  setenv("HOCKET_EMULATOR_CHECK", "1", 0);
  return true;
}();

}  // namespace hocket

#endif  // HOCKET_TESTS_EMULATOR_OWN_DEVICE_H_
