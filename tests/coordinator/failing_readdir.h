// Folders of this test program that cannot be read to their end.
#ifndef HOCKET_TESTS_COORDINATOR_FAILING_READDIR_H_
#define HOCKET_TESTS_COORDINATOR_FAILING_READDIR_H_

namespace hocket::coordinator {

// While it lives, readdir() gives `good` entries more, and then fails with EIO.
class FailingReaddir {
 public:
  explicit FailingReaddir(int good);
  ~FailingReaddir();
  FailingReaddir(const FailingReaddir&) = delete;
  FailingReaddir& operator=(const FailingReaddir&) = delete;

  // Whether it has failed.
  static bool failed();
};

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_FAILING_READDIR_H_
