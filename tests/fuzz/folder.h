// A folder of a fuzzer's own, in memory, for what reads files.
#ifndef HOCKET_TESTS_FUZZ_FOLDER_H_
#define HOCKET_TESTS_FUZZ_FOLDER_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "csrc/base/check.h"

namespace hocket::fuzz {

// The same one at each call; it is removed when the process ends.
inline const std::string& Folder() {
  static const std::string& folder = *[] {
    char name[] = "/dev/shm/hocket-fuzz-XXXXXX";
    HOCKET_CHECK(mkdtemp(name) != nullptr) << "no folder in /dev/shm";
    return new std::string(name);
  }();
  static const int removed = std::atexit([] { std::filesystem::remove_all(folder); });
  HOCKET_CHECK(removed == 0) << "the folder would stay";
  return folder;
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  HOCKET_CHECK(file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()))
      << path;
  close(file);
}

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_FOLDER_H_
