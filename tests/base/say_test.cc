// A line on stderr that waits for nobody.
#include "csrc/base/say.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "csrc/base/unique_fd.h"

namespace hocket {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  UniqueFd read, write;
};

// Says it in a process whose stderr is `output`; returns how that ended, as of waitpid(). One that waits for
// ever is ended by a signal.
int SaidTo(const UniqueFd& output, const std::string& text) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    dup2(output.get(), STDERR_FILENO);
    Say(text);
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void Fill(const UniqueFd& pipe) {
  const std::string page(4096, 'x');
  fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  while (write(pipe.get(), page.data(), page.size()) > 0) {
  }
  fcntl(pipe.get(), F_SETFL, 0);
}

TEST(SayTest, WritesOneLineWithTheProgramsName) {
  Pipe pipe;
  EXPECT_EQ(SaidTo(pipe.write, "two jobs"), 0);
  pipe.write.Reset();
  std::array<char, 64> read_back;
  const ssize_t size = read(pipe.read.get(), read_back.data(), read_back.size());
  EXPECT_EQ(std::string(read_back.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
            "hocket: two jobs\n");
}

TEST(SayTest, DoesNotWaitForAPipeThatNobodyEmpties) {
  const Pipe pipe;
  Fill(pipe.write);
  EXPECT_EQ(SaidTo(pipe.write, "lost"), 0);
}

TEST(SayTest, DoesNotWaitForTheRestOfALongText) {
  const Pipe pipe;
  EXPECT_EQ(SaidTo(pipe.write, std::string(1'000'000, 'x')), 0);
}

TEST(SayTest, AReaderWhoHasGoneIsNoReasonToDie) {
  Pipe pipe;
  pipe.read.Reset();
  EXPECT_EQ(SaidTo(pipe.write, "to nobody"), 0);
}

}  // namespace
}  // namespace hocket
