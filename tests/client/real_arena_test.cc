// An arena of as many chunks as a device of 139 GiB has (35,000 of 4 MiB), among processes and a hocketd that
// may have 1,024 descriptors, as is usual.
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <atomic>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>

#include "csrc/client/client.h"
#include "tests/client/fake_allocator.h"
#include "tests/client/real_coordinator.h"

namespace hocket {
namespace {

constexpr int kChunks = 35'000;
constexpr int kMayHave = 1'024;

class RealArenaTest : public testing::RealCoordinatorTest {
 protected:
  RealArenaTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit usual{kMayHave, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &usual);
  }
  ~RealArenaTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  static std::unique_ptr<Client> Joins(const std::string& name) {
    auto client = Client::Join({.name = name}, "gpu-0", "emulated", Bytes{1} << 40);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  void DaemonMayHaveNoMore() {
    const auto pid = static_cast<pid_t>(Asks("version")["pid"].get<int>());
    const rlimit usual{kMayHave, kMayHave};
    ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &usual, nullptr), 0);
  }
  static long OpenHere() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  }

 private:
  rlimit before_{};
};

// An allocator that counts what it is told of the arena.
class Counting {
 public:
  explicit Counting(std::unique_ptr<Client> client) : client_(std::move(client)) {
    allocator.gate = client_.get();
    allocator.SetHook([this](const std::string& call) {
      if (call != "add" || added_.fetch_add(1) % 1'000 != 0) return;
      most_open_ =
          std::max<long>(most_open_, std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                                   std::filesystem::directory_iterator()));
    });
  }
  void Starts() { client_->SetAllocator(&allocator); }
  // Until it has been told of so many chunks; in order, each with its descriptor.
  void Knows(int chunks) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(500);
    while (added_ < chunks && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the processors are for those who work
    EXPECT_EQ(added_, chunks);
    client_->SetAllocator(&allocator);  // returns when what was received has been done
    std::vector<std::string> expected;
    for (int i = 1; i <= chunks; ++i) expected.push_back("add " + std::to_string(i));
    std::vector<std::string> log = allocator.TakeLog();
    std::erase(log, "drop all");  // of a coordinator that ended before it knew of any
    for (size_t i = 0; i < std::min(log.size(), expected.size()); ++i) ASSERT_EQ(log[i], expected[i]);
    ASSERT_EQ(log.size(), expected.size());
  }
  long most_open() const { return most_open_; }

  FakeAllocator allocator;

 private:
  std::atomic<int> added_{0};
  std::atomic<long> most_open_{0};
  std::unique_ptr<Client> client_;  // ends first
};

// Has the turn, and all chunks of the arena.
class Holder {
 public:
  explicit Holder(std::unique_ptr<Client> client) : client_(std::move(client)) {
    allocator_.gate = client_.get();
    allocator_.arena.resize(kChunks);
    std::iota(allocator_.arena.begin(), allocator_.arena.end(), 1);
    client_->SetAllocator(&allocator_);
    EXPECT_TRUE(client_->BeginStep().ok());
  }
  ~Holder() { client_->EndStep(); }
  void Grows() {
    for (const ArenaChunkId id : allocator_.arena) {
      UniqueFd descriptor(eventfd(0, EFD_CLOEXEC));
      ASSERT_TRUE(descriptor) << "chunk " << id;
      static_cast<Gate&>(*client_).ArenaGrew(id, 64, std::move(descriptor));
    }
  }

 private:
  FakeAllocator allocator_;
  std::unique_ptr<Client> client_;  // ends first
};

TEST_F(RealArenaTest, AllOfItReachesAJobThatJoinsAndOneWhoseAllocatorComesLate) {
  Holder holder(Joins("holder"));
  DaemonMayHaveNoMore();
  Counting early(Joins("early")), late(Joins("late"));
  early.Starts();
  const long before = OpenHere();
  holder.Grows();
  early.Knows(kChunks);
  EXPECT_GE(OpenHere(), before + 256) << "the late one has some";
  EXPECT_LE(OpenHere(), before + 272);
  late.Starts();
  late.Knows(kChunks);
  EXPECT_LE(std::max(early.most_open(), late.most_open()), kMayHave / 2);
}

// Its queue would fill up with descriptors, and hocketd's.
TEST_F(RealArenaTest, AHolderGrowsByAllOfItWhileTheCoordinatorIsStopped) {
  Holder holder(Joins("holder"));
  DaemonMayHaveNoMore();
  const auto pid = static_cast<pid_t>(Asks("version")["pid"].get<int>());
  Counting other(Joins("other"));
  other.Starts();
  kill(pid, SIGSTOP);
  holder.Grows();
  EXPECT_LE(OpenHere(), kMayHave / 2);
  kill(pid, SIGCONT);
  other.Knows(kChunks);
}

TEST_F(RealArenaTest, AHolderTellsACoordinatorThatWasStartedAnewAllOfIt) {
  Holder holder(Joins("holder"));
  KillDaemon();
  Counting other(Joins("other"));
  DaemonMayHaveNoMore();
  other.Starts();
  other.Knows(kChunks);
}

}  // namespace
}  // namespace hocket
