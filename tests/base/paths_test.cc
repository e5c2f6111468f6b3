#include "csrc/base/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

namespace hocket {
namespace {

using ::testing::HasSubstr;

// A runtime folder of this test's own.
class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hocket-paths-XXXXXX";
    base_ = mkdtemp(name);
    Use(base_ + "/run");
  }
  void TearDown() override {
    unsetenv("HOCKET_RUNTIME_DIR");
    rmdir((base_ + "/run").c_str());
    unlink((base_ + "/file").c_str());
    rmdir(base_.c_str());
  }
  void Use(const std::string& dir) { setenv("HOCKET_RUNTIME_DIR", dir.c_str(), 1); }

  std::string base_;
};

TEST_F(PathsTest, FollowTheEnvironment) {
  EXPECT_EQ(RuntimeDir(), base_ + "/run");
  EXPECT_EQ(SocketPath(), base_ + "/run/hocketd.sock");
}

// A coordinator leaves the folder in which it was started, and programs change theirs.
TEST_F(PathsTest, ARelativeFolderIsTakenFromWhereTheProgramWasStarted) {
  const std::string here = std::filesystem::current_path();
  for (const char* const named : {"rel", "./rel", ".//./rel"}) {
    Use(named);
    EXPECT_EQ(RuntimeDir(), here + "/rel");
  }
  Use("rel");
  std::filesystem::current_path(base_);
  EXPECT_EQ(RuntimeDir(), here + "/rel");
  EXPECT_EQ(SocketPath(), here + "/rel/hocketd.sock");
  std::filesystem::current_path(here);
  Use(".");
  EXPECT_EQ(RuntimeDir(), here + "/.");
}

TEST_F(PathsTest, CreatesTheFolderForItsUserAlone) {
  ASSERT_TRUE(EnsureRuntimeDir().ok());
  struct stat info {};
  ASSERT_EQ(stat((base_ + "/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(EnsureRuntimeDir().ok()) << "a second time";
}

TEST_F(PathsTest, RefusesAFolderThatOthersMayWriteTo) {
  ASSERT_TRUE(EnsureRuntimeDir().ok());
  ASSERT_EQ(chmod((base_ + "/run").c_str(), 0777), 0);
  const auto dir = EnsureRuntimeDir();
  ASSERT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("mode 0777"));
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("chmod 700"));
}

TEST_F(PathsTest, RefusesAFileInTheFoldersPlace) {
  Use(base_ + "/file");
  fclose(fopen((base_ + "/file").c_str(), "w"));
  const auto dir = EnsureRuntimeDir();
  ASSERT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("is not a folder"));
}

TEST_F(PathsTest, SaysWhyAFolderCannotBeMade) {
  Use(base_ + "/missing/run");
  const auto dir = EnsureRuntimeDir();
  ASSERT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("No such file or directory"));
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("HOCKET_RUNTIME_DIR"));
}

// --- what is to last --------------------------------------------------------------------------------

class StateDirTest : public PathsTest {
 protected:
  void SetUp() override {
    PathsTest::SetUp();
    for (const char* name : {"HOME", "XDG_STATE_HOME"}) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
    }
    unsetenv("HOCKET_RUNTIME_DIR");
  }
  void TearDown() override {
    for (const char* name : {"HOME", "XDG_STATE_HOME"}) {
      unsetenv(name);
      if (before_.contains(name)) setenv(name, before_[name].c_str(), 1);
    }
    std::filesystem::remove_all(base_);
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(StateDirTest, IsInTheUsersOwnPlaceAndHisAlone) {
  setenv("HOME", base_.c_str(), 1);
  const auto dir = EnsureStateDir(/*system=*/false);
  ASSERT_TRUE(dir.ok()) << dir.status().message();
  EXPECT_EQ(*dir, base_ + "/.local/state/hocket");
  struct stat info {};
  ASSERT_EQ(stat(dir->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  setenv("XDG_STATE_HOME", (base_ + "/states").c_str(), 1);
  EXPECT_EQ(*EnsureStateDir(false), base_ + "/states/hocket");
  setenv("XDG_STATE_HOME", "states", 1);
  EXPECT_EQ(*EnsureStateDir(false), base_ + "/.local/state/hocket") << "what is not absolute does not count";
}

TEST_F(StateDirTest, IsTheRuntimeFolderWhereThatIsNamed) {
  Use(base_ + "/run");
  setenv("HOME", base_.c_str(), 1);
  EXPECT_EQ(*EnsureStateDir(false), base_ + "/run");
  EXPECT_EQ(*EnsureStateDir(true), base_ + "/run");
  EXPECT_FALSE(std::filesystem::exists(base_ + "/.local"));
}

TEST_F(StateDirTest, SaysWhyThereIsNone) {
  EXPECT_THAT(std::string(EnsureStateDir(false).status().message()), HasSubstr("XDG_STATE_HOME nor HOME"));
  fclose(fopen((base_ + "/file").c_str(), "w"));
  setenv("XDG_STATE_HOME", (base_ + "/file").c_str(), 1);
  EXPECT_THAT(std::string(EnsureStateDir(false).status().message()),
              HasSubstr(base_ + "/file/hocket for settings: Not a directory"));
  setenv("XDG_STATE_HOME", base_.c_str(), 1);
  ASSERT_EQ(mkdir((base_ + "/hocket").c_str(), 0700), 0);
  ASSERT_EQ(chmod((base_ + "/hocket").c_str(), 0777), 0);
  EXPECT_THAT(std::string(EnsureStateDir(false).status().message()), HasSubstr("mode 0777"));
}

// `sudo -E`, or a container as root that is given a user's HOME: what root makes there locks him out of it.
TEST_F(StateDirTest, RootMakesNoneInTheHomeOfAnother) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, who alone can give a folder to another user";
  ASSERT_EQ(chown(base_.c_str(), 12345, 12345), 0);
  setenv("HOME", base_.c_str(), 1);
  EXPECT_THAT(std::string(EnsureStateDir(false).status().message()), HasSubstr("a folder of uid 0"));
  EXPECT_FALSE(std::filesystem::exists(base_ + "/.local"));
  setenv("XDG_STATE_HOME", base_.c_str(), 1);
  EXPECT_FALSE(EnsureStateDir(false).ok());
}

// --- the folder of a daemon that serves all users -------------------------------------------------

TEST_F(PathsTest, ADaemonForAllUsersNeedsRootAndSaysSo) {
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(12345) == 0);
  const auto dir = EnsureSystemDir();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr("Without --system it serves you alone"));
}

TEST_F(PathsTest, ADaemonForAllUsersHasItsPlaceWhereRootHasPutASocketForEverybody) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, whose folder it must be";
  const auto dir = EnsureSystemDir();
  ASSERT_TRUE(dir.ok()) << dir.status().message();
  struct stat info {};
  ASSERT_EQ(stat(dir->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
  EXPECT_FALSE(IsSystemDir(*dir)) << "without a socket";
  const std::string path = *dir + "/hocketd.sock";
  ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_FALSE(IsSystemDir(*dir)) << "the socket is root's alone";
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_TRUE(IsSystemDir(*dir));
  ASSERT_EQ(chown(dir->c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_FALSE(IsSystemDir(*dir)) << "anybody could have put it there";
}

}  // namespace
}  // namespace hocket
