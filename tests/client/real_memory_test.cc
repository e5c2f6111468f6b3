// Several processes share an emulated device that does not hold what all of them have, and a real hocketd
// moves them. Each knows all of its bytes (memory_job.cc); here they are killed and stopped, and so is
// hocketd.
#include "tests/client/real_coordinator.h"

namespace hocket {
namespace {

class RealMemoryTest : public testing::RealCoordinatorTest {
 protected:
  RealMemoryTest() {
    program_ = MEMORY_JOB_PATH;
    const std::string name = "real-memory-" + std::to_string(getpid());
    page_ = "/dev/shm/hocket-emulator-" + std::to_string(geteuid()) + "-" + name;
    setenv("HOCKET_EMULATOR_NAME", name.c_str(), 1);
    setenv("HOCKET_EMULATOR_MEMORY", "2560KiB", 1);
    setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", 1);
    setenv("HOCKET_EMULATOR_CHECK", "1", 1);
    setenv("HOCKET_SWITCH_SHARE", "0.9", 1);  // many hand-overs
  }
  ~RealMemoryTest() override { unlink(page_.c_str()); }

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  static constexpr int kSteps = 120;  // each takes ten times as long
#else
  static constexpr int kSteps = 400;
#endif
  // Steps for which memory has come back from the host.
  long Moved() const { return std::count(said_.begin(), said_.end(), 'm'); }

  std::string page_;
};

TEST_F(RealMemoryTest, ThreeProcessesKeepTheirBytesOnADeviceTooSmallForAll) {
  for (const char* name : {"a", "b", "c"}) Starts(name, kSteps);
  AllEnd();
  EXPECT_GT(Moved(), 0);
}

TEST_F(RealMemoryTest, AKilledProcessTakesNoBytesOfTheOthersWithIt) {
  std::mt19937 random = testing::Seeded(3);
  for (const char* name : {"a", "b", "c"}) Starts(name, kSteps);
  for (int i = 0; i < 12; ++i) {
    Progresses(1 + static_cast<int>(random() % 25));
    if (!jobs_.empty()) KillsOneJob(random);
    Starts("again", kSteps);
  }
  AllEnd();
  EXPECT_GT(Moved(), 0);
}

TEST_F(RealMemoryTest, RandomKillsAndStopsOfJobsAndCoordinatorCostNobodyAByte) {
  std::mt19937 random = testing::Seeded(4);
  for (const char* name : {"a", "b", "c"}) Starts(name, kSteps);
  for (int i = 0; i < 12 && !jobs_.empty(); ++i) {
    Progresses(1 + static_cast<int>(random() % 25));
    if (jobs_.empty()) break;
    if (random() % 3 == 0) KillDaemon();
    if (random() % 2 == 0) {
      KillsOneJob(random);
      Starts("again", kSteps);
    } else {
      StopsOneJobForAWhile(random);
    }
  }
  AllEnd();
  EXPECT_GT(Moved(), 0);
}

}  // namespace
}  // namespace hocket
