#include "csrc/client/make_in_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace hocket {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Full() { return absl::ResourceExhaustedError("cuDevicePrimaryCtxRetain: full"); }

// Writes down what it is asked, and answers as the test says.
class FakeClient final : public Client {
 public:
  bool HoldsTurn() const override { return holds; }
  absl::Status AwaitTurn() override {
    log.push_back("await turn");
    holds = true;
    return absl::OkStatus();
  }
  absl::Status AwaitRoom(Bytes bytes) override {
    log.push_back("room " + std::to_string(bytes));
    return room();
  }
  void ArenaGrew(ArenaChunkId, Bytes, UniqueFd) override {}
  void ArenaLost(ArenaChunkId) override {}
  void SetAllocator(CachingAllocator*) override {}
  absl::Status BeginStep(bool) override {
    log.push_back("begin");
    holds = begins.ok();
    return begins;
  }
  void KeepTurnInSteps() override {}
  void EndStep(bool count) override { log.push_back(count ? "end" : "end, not counted"); }
  void BeginAway() override {}
  absl::Status EndAway() override { return absl::OkStatus(); }
  absl::Status BeginUse() override { return absl::OkStatus(); }
  bool EndUse() override { return true; }
  bool HasParked() const override { return false; }
  absl::Status EndParked() override { return absl::OkStatus(); }
  bool HasTurn() const override { return holds; }
  void JoinGang(const std::string&, std::uint64_t, std::uint64_t) override {}
  void Leave() override {}
  JobInfo Info() const override { return {}; }

  bool holds = false;
  absl::Status begins;
  std::function<absl::Status()> room = [] { return absl::OkStatus(); };
  std::vector<std::string> log;
};

class MakeInStepTest : public ::testing::Test {
 protected:
  // Fails for want of room so many times.
  absl::Status Make(int times) {
    return MakeInStep(client_, 64, [&] {
      client_.log.push_back("make");
      return times-- > 0 ? Full() : absl::OkStatus();
    });
  }

  FakeClient client_;
};

TEST_F(MakeInStepTest, RoomThatIsThereWithTheTurnIsNotAskedFor) {
  EXPECT_TRUE(Make(0).ok());
  EXPECT_THAT(client_.log, ElementsAre("begin", "make", "end, not counted"));
}

TEST_F(MakeInStepTest, RoomIsAskedForUntilItSuffices) {
  EXPECT_TRUE(Make(2).ok());
  EXPECT_THAT(client_.log,
              ElementsAre("begin", "make", "room 64", "make", "room 64", "make", "end, not counted"));
}

TEST_F(MakeInStepTest, ATurnThatPassedWhileRoomWasWaitedForIsWaitedForAgain) {
  client_.room = [&] {
    client_.holds = false;
    return absl::OkStatus();
  };
  EXPECT_TRUE(Make(1).ok());
  EXPECT_THAT(client_.log, ElementsAre("begin", "make", "room 64", "await turn", "make", "end, not counted"));
}

TEST_F(MakeInStepTest, WhereNobodyGivesRoomItIsTriedOnceMoreAndTheErrorSaysBoth) {
  client_.room = [] { return absl::ResourceExhaustedError("a holds all of it"); };
  const absl::Status status = Make(9);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(status.message(), HasSubstr("cuDevicePrimaryCtxRetain"));
  EXPECT_THAT(status.message(), HasSubstr("a holds all of it"));
  EXPECT_THAT(client_.log, ElementsAre("begin", "make", "room 64", "make", "end, not counted"));
}

TEST_F(MakeInStepTest, AnInterruptionEndsTheWait) {
  client_.room = [] { return absl::CancelledError("Ctrl-C"); };
  EXPECT_TRUE(absl::IsCancelled(Make(9)));
  EXPECT_EQ(client_.log.back(), "end, not counted");
  client_.begins = absl::CancelledError("Ctrl-C");
  client_.log.clear();
  EXPECT_TRUE(absl::IsCancelled(Make(0)));
  EXPECT_THAT(client_.log, ElementsAre("begin"));
}

TEST_F(MakeInStepTest, AnyOtherErrorIsToldAtOnce) {
  const absl::Status status = MakeInStep(client_, 64, [] { return absl::InternalError("lost"); });
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(client_.log, ElementsAre("begin", "end, not counted"));
}

}  // namespace
}  // namespace hocket
