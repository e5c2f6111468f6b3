// Owns a file descriptor and closes it.
#ifndef HOCKET_CSRC_BASE_UNIQUE_FD_H_
#define HOCKET_CSRC_BASE_UNIQUE_FD_H_

#include <utility>

namespace hocket {

// Move-only. An empty one holds -1.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Gives the descriptor up: the caller closes it.
  int Release() { return std::exchange(fd_, -1); }
  void Reset();
  // A second descriptor of the same file, closed on exec; empty when none is left.
  UniqueFd Duplicate() const;

 private:
  int fd_ = -1;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_UNIQUE_FD_H_
