#include "csrc/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace hocket::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  message_ << "hocket: internal error at " << file << ":" << line << ": " << condition << " does not hold. ";
}

CheckFailure::~CheckFailure() {
  message_ << "\n";
  std::fputs(message_.str().c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace hocket::internal
