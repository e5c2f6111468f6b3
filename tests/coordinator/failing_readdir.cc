#include "tests/coordinator/failing_readdir.h"

#include <dirent.h>
#include <dlfcn.h>

#include <atomic>
#include <cerrno>

namespace hocket::coordinator {
namespace {

std::atomic<bool> fails{false}, has_failed{false};
std::atomic<int> left{0};

}  // namespace

FailingReaddir::FailingReaddir(int good) {
  left = good;
  has_failed = false;
  fails = true;
}

FailingReaddir::~FailingReaddir() { fails = false; }

bool FailingReaddir::failed() { return has_failed; }

}  // namespace hocket::coordinator

// libstdc++'s folders are read with it: a program's own function comes before the library's.
extern "C" __attribute__((visibility("default"))) dirent* readdir(DIR* folder) {
  using hocket::coordinator::fails, hocket::coordinator::has_failed, hocket::coordinator::left;
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
  if (!fails || left-- > 0) return real(folder);
  has_failed = true;
  errno = EIO;
  return nullptr;
}
