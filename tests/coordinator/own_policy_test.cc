// A policy of the user's own, played by shell scripts that do what programs do: answer, end, hang, babble.
#include "coordinator/own/own_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHello = R"(echo '{"hocket_policy": 1}'; )";

JobView View(EntityId id) {
  JobView job;
  job.id = id;
  job.now = absl::UnixEpoch();
  job.asked = job.now - absl::Seconds(10 - static_cast<double>(id));
  job.left = absl::InfinitePast();
  return job;
}

class OwnPolicyTest : public testing::Test {
 protected:
  // Who is to answer has the time that a busy machine takes.
  void Start(const std::string& script, absl::Duration patience = absl::Minutes(2)) {
    Run(absl::StrCat("/bin/sh\t-c\t", script), patience);
  }
  void Run(const std::string& command, absl::Duration patience = absl::Minutes(2)) {
    policy.emplace(command,
                   OwnPolicyOptions{.say = [this](const std::string& sentence) { said.push_back(sentence); },
                                    .patience = patience,
                                    .now = [this] { return now; }});
  }
  std::vector<EntityId> Order(const std::vector<EntityId>& waiting) {
    std::vector<JobView> jobs;
    for (EntityId id : waiting) jobs.push_back(View(id));
    std::vector<EntityId> order;
    for (const JobView& job : policy->Order(std::move(jobs))) order.push_back(job.id);
    return order;
  }
  // Asks again and again until the program has said that it is ready, or has failed.
  void OrderUntilItSpeaks(const std::vector<EntityId>& waiting) {
    while (said.empty()) Order(waiting);
  }
  void ExpectFailed(const std::string& why) {
    EXPECT_THAT(policy->Trouble(), HasSubstr(why));
    ASSERT_FALSE(said.empty());
    EXPECT_THAT(said.back(), HasSubstr("fair decides"));
    EXPECT_THAT(Order({1, 2, 3}), ElementsAre(1, 2, 3)) << "the earliest asker first: all have had nothing";
    EXPECT_THAT(policy->Standing(View(1)), HasSubstr("has failed"));
    EXPECT_NO_THROW((void)nlohmann::json(policy->Trouble()).dump()) << "it is shown as JSON";
  }

  // Asks and looks, while no time passes, until it decides, or has failed, `times` times in all.
  void OrderUntilSaid(const std::string& what, int times) {
    const auto has_it = [&](const std::string& sentence) { return sentence.find(what) != std::string::npos; };
    while (std::count_if(said.begin(), said.end(), has_it) < times) Order({1, 2});
  }

  std::vector<std::string> said;
  absl::Time now = absl::UnixEpoch();  // a pause is over only when a test says so
  std::optional<OwnPolicy> policy;
};

TEST_F(OwnPolicyTest, ItsOrderIsTheOrderAndItsReasonTheReason) {
  Start(kHello + R"(while read line; do case "$line" in *'"ask":"order"'*)
                      echo '{"order": [3, 1, 2], "reason": "three comes first"}';; esac; done)");
  OrderUntilItSpeaks({1, 2, 3});
  EXPECT_THAT(said.back(), HasSubstr("decides (pid"));
  policy->Asked(View(1));
  policy->Granted(View(1));
  policy->Charge(View(1), absl::Seconds(1), true);
  EXPECT_THAT(Order({1, 2, 3}), ElementsAre(3, 1, 2));
  EXPECT_EQ(policy->Reason(View(3)), "three comes first");
  EXPECT_EQ(policy->Trouble(), "");
  EXPECT_EQ(policy->Keep(View(3), absl::Seconds(1), {.waiting = {View(1)}}), absl::ZeroDuration())
      << "not asked";
}

TEST_F(OwnPolicyTest, ItIsAskedHowLongAHolderGoesOnWhereItWantsToBe) {
  Start(R"(echo '{"hocket_policy": 1, "keeps": true}';
           while read line; do case "$line" in *'"ask":"keep"'*) echo '{"seconds": 1.5}';;
                                               *'"ask":"order"'*) echo '{"order": [1]}';; esac; done)");
  OrderUntilItSpeaks({1});
  EXPECT_EQ(policy->Keep(View(1), absl::Seconds(1), {.waiting = {View(2)}}), absl::Seconds(1.5));
}

// It would say something else each time.
TEST_F(OwnPolicyTest, TheSameQuestionIsAskedOnceInAMoment) {
  Start(R"(echo '{"hocket_policy": 1, "keeps": true}'; n=0;
           while read line; do case "$line" in *'"ask":"keep"'*) n=$((n + 1)); echo "{\"seconds\": $n}";;
                                               *'"ask":"order"'*) echo '{"order": [1]}';; esac; done)");
  OrderUntilItSpeaks({1});
  const auto keep = [&](absl::Duration later, EntityId waits) {
    JobView holder = View(1);
    holder.now += later;
    return absl::ToInt64Seconds(policy->Keep(holder, absl::Seconds(1) + later, {.waiting = {View(waits)}}));
  };
  EXPECT_EQ(keep(absl::ZeroDuration(), 2), 1);
  EXPECT_EQ(keep(absl::ZeroDuration(), 3), 2) << "another question";
  EXPECT_EQ(keep(absl::ZeroDuration(), 2), 1);
  policy->Asked(View(3));
  EXPECT_EQ(keep(absl::ZeroDuration(), 2), 3) << "it was told something";
  EXPECT_EQ(keep(absl::Seconds(1), 2), 4) << "time has passed";
  EXPECT_EQ(keep(absl::Seconds(1), 2), 4);
}

TEST_F(OwnPolicyTest, UntilItIsReadyFairDecides) {
  Start("read never");
  EXPECT_THAT(Order({2, 1}), ElementsAre(2, 1));
  EXPECT_THAT(policy->Reason(View(2)), HasSubstr("least device time"));
  EXPECT_TRUE(said.empty());
}

TEST_F(OwnPolicyTest, ThatItIsReadyIsHeardBeforeAnybodyIsToBeChosen) {
  Start(kHello + "exec cat > /dev/null");
  while (said.empty()) EXPECT_EQ(policy->Trouble(), "");
  EXPECT_THAT(said.back(), HasSubstr("decides (pid"));
}

TEST_F(OwnPolicyTest, FairKnowsWhatEverybodyHasHad) {
  Start(kHello + "cat > /dev/null", absl::Milliseconds(10));
  for (EntityId id : {1, 2}) policy->Granted(View(id));
  policy->Charge(View(1), absl::Seconds(5), true);
  while (said.size() < 2) Order({1, 2});  // "decides", "has not answered"
  EXPECT_THAT(said.back(), HasSubstr("it has not answered within 10ms"));
  EXPECT_THAT(Order({1, 2}), ElementsAre(2, 1));
}

TEST_F(OwnPolicyTest, AProgramThatEndsHasFailed) {
  Start(kHello + "exit 3");
  while (policy->Trouble().empty()) Order({1, 2, 3});
  ExpectFailed("it has ended");
}

TEST_F(OwnPolicyTest, AProgramThatNeverAnswersIsAskedOnce) {
  Start(kHello + "cat > /dev/null", absl::Milliseconds(10));
  while (policy->Trouble().empty()) Order({1, 2, 3});
  for (int i = 0; i < 10'000; ++i) Order({1, 2, 3});  // for minutes, if it were asked again
  EXPECT_EQ(said.size(), 2u);
  ExpectFailed("it has not answered");
}

TEST_F(OwnPolicyTest, AProgramThatReadsNothingHasFailedWhenThereIsNoMoreRoomForIt) {
  Start(kHello + "exec tail -f /dev/null");
  while (policy->Trouble().empty()) policy->Asked(View(1));
  ExpectFailed("it does not read");
}

TEST_F(OwnPolicyTest, AFloodIsCutOff) {
  Start(kHello + "exec tr '\\0' x < /dev/zero");
  while (policy->Trouble().empty()) Order({1, 2, 3});
  ExpectFailed("it says more than");
}

TEST_F(OwnPolicyTest, ItsOwnErrorIsSaid) {
  Start(kHello +
        R"sh(read line; echo '{"error": "ZeroDivisionError: division by zero (mine.py, line 7)"}')sh");
  while (policy->Trouble().empty()) Order({1, 2, 3});
  ExpectFailed("ZeroDivisionError: division by zero (mine.py, line 7)");
}

TEST_F(OwnPolicyTest, AProgramThatIsNoPolicyIsToldByItsFirstLine) {
  Start("echo Usage: mine FILE");
  while (policy->Trouble().empty()) Order({1, 2, 3});
  ExpectFailed("its first line is \"Usage: mine FILE\"");
}

TEST_F(OwnPolicyTest, AProgramThatCannotBeStartedHasFailed) {
  Run("/nowhere/mine");
  ExpectFailed("cannot start /nowhere/mine");
}

TEST_F(OwnPolicyTest, ItIsGoneWithItsPolicy) {
  Start(kHello + "cat > /dev/null", absl::Milliseconds(10));
  OrderUntilItSpeaks({1});
  const std::size_t at = said.front().find("(pid ") + 5;
  const pid_t pid = std::stoi(said.front().substr(at));
  policy.reset();
  siginfo_t end{};
  while (waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  Start(kHello);  // the next one sees that it is gone
  EXPECT_NE(kill(pid, 0), 0);
}

// A file in which a test says what the program does when it is started next.
class OwnPolicyAgainTest : public OwnPolicyTest {
 protected:
  void SetUp() override { Does(kReverses); }
  void TearDown() override { unlink(script.c_str()); }
  void Does(const std::string& text) { std::ofstream(script) << text; }
  void StartFile(absl::Duration patience = absl::Minutes(2)) { Run("/bin/sh\t" + script, patience); }
  // As anybody may; it is noticed when somebody looks.
  void Kill() {
    kill(std::stoi(said.back().substr(said.back().find("(pid ") + 5)), SIGKILL);
    while (policy->Trouble().empty()) {
    }
    EXPECT_THAT(said.back(), HasSubstr("it has ended"));
  }
  // It fails, and the pause after that is `pause`: no time less, and no more.
  void ExpectPause(absl::Duration pause) {
    EXPECT_THAT(policy->Trouble(),
                HasSubstr(absl::StrCat("it is tried again in ", absl::FormatDuration(pause))));
    now += pause - absl::Milliseconds(1);
    EXPECT_THAT(policy->Trouble(), HasSubstr("it is tried again in 1s"));
    now += absl::Milliseconds(1);
  }

  const std::string kReverses =
      kHello +
      R"(while read line; do case "$line" in *'"ask":"order"'*) echo '{"order": [2, 1]}';; esac; done)";
  const std::string kFails = kHello + R"(read line; echo '{"error": "no luck"}')";
  const std::string script = testing::TempDir() + absl::StrCat("/own_policy_", getpid(), ".sh");
};

TEST_F(OwnPolicyAgainTest, AfterAPauseItIsTriedOnAChoiceThatFairMakesAndThenDecides) {
  Does(kFails);
  StartFile();
  OrderUntilSaid("no luck", 1);
  EXPECT_THAT(said.back(), HasSubstr("Now fair decides; it is tried again in 1s"));
  Does(kReverses);
  ExpectPause(absl::Seconds(1));
  OrderUntilSaid("decides again (pid", 1);
  EXPECT_EQ(policy->Trouble(), "");
  EXPECT_THAT(Order({1, 2}), ElementsAre(2, 1));
  EXPECT_EQ(policy->Standing(View(1)), "");
}

TEST_F(OwnPolicyAgainTest, ThePausesGrowToFiveMinutes) {
  Does(kFails);
  StartFile();
  int failures = 0;
  for (int seconds : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    OrderUntilSaid("no luck", ++failures);
    ExpectPause(absl::Seconds(seconds));
  }
}

TEST_F(OwnPolicyAgainTest, ThePausesBeginAnewOnceItHasServedWell) {
  Does(kFails);
  StartFile();
  OrderUntilSaid("no luck", 1);
  ExpectPause(absl::Seconds(1));
  OrderUntilSaid("no luck", 2);
  Does(kReverses);
  ExpectPause(absl::Seconds(2));
  OrderUntilSaid("decides again", 1);
  now += OwnPolicy::kServesWell - absl::Seconds(1);
  Kill();
  ExpectPause(absl::Seconds(4));
  OrderUntilSaid("decides again", 2);
  now += OwnPolicy::kServesWell;
  Kill();
  ExpectPause(absl::Seconds(1));
}

TEST_F(OwnPolicyAgainTest, NobodyWaitsForOneThatIsTriedAndDoesNotAnswer) {
  Does(kFails);
  StartFile();
  OrderUntilSaid("no luck", 1);
  Does(kHello + "exec cat > /dev/null");
  ExpectPause(absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(Order({2, 1}), ElementsAre(2, 1)) << "as fair has it";
  while (policy->Trouble().find("has to answer once") == std::string::npos) {
  }
  Order({1, 2});  // the question; for two minutes, if somebody waited
  now += absl::Minutes(2) + absl::Milliseconds(1);
  EXPECT_THAT(policy->Trouble(), HasSubstr("it has not answered within 2m; it is tried again in 2s"));
}

TEST_F(OwnPolicyAgainTest, OneThatNeverSaysThatItIsReadyHasFailedAfterAWhile) {
  Does("exec cat > /dev/null");
  StartFile(absl::Seconds(1));
  EXPECT_THAT(policy->Standing(View(1)), HasSubstr("is starting, until then fair decides"));
  now += OwnPolicy::kMostToStart;
  ExpectFailed("it has not said within 1m that it is ready");
}

// Nor is it told anything that it does not know of: those whose turn has come meanwhile.
TEST_F(OwnPolicyAgainTest, WhoWaitsIsToldToTheNextOne) {
  const std::string told = script + ".told";
  Does(kFails);
  StartFile();
  OrderUntilSaid("no luck", 1);
  for (EntityId id : {1, 2, 3, 4}) policy->Asked(View(id));
  policy->Granted(View(2));
  policy->Forget(3);
  Does(kHello + absl::StrCat("read one; read two; read three; printf '%s\\n' \"$one\" \"$two\" \"$three\" > ",
                             told, "; while echo '{\"order\": [1, 2]}'; do read line || exit; done"));
  ExpectPause(absl::Seconds(1));
  OrderUntilSaid("decides again", 1);
  std::ifstream in(told);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    lines.push_back(json.contains("ask")
                        ? "asks"
                        : absl::StrCat(json["tell"].get<std::string>(), " ", json["job"]["id"].get<int>()));
  }
  unlink(told.c_str());
  EXPECT_THAT(lines, ElementsAre("asked 1", "asked 4", "asks"));
}

TEST_F(OwnPolicyAgainTest, OneThatIsNotToBeTriedAgainIsNot) {
  Does(kFails);
  policy.emplace("/bin/sh\t" + script,
                 OwnPolicyOptions{.patience = absl::Minutes(2),
                                  .now = [this] { return now; },
                                  .give_up = [this](const std::string& why) { said.push_back(why); }});
  policy->Await(absl::Minutes(2));
  Order({1, 2});
  EXPECT_EQ(policy->Trouble(), "no luck");
  Does(kReverses);
  now += absl::Hours(1);
  for (int i = 0; i < 100; ++i) Order({1, 2});
  EXPECT_EQ(policy->Trouble(), "no luck");
  EXPECT_THAT(said, ElementsAre("no luck"));
}

class NonsenseTest : public OwnPolicyTest, public testing::WithParamInterface<const char*> {};

TEST_P(NonsenseTest, IsNoOrder) {
  Start(absl::StrCat(kHello, "while read line; do printf '%b\\n' '", GetParam(), "'; done"));
  while (policy->Trouble().empty()) Order({1, 2, 3});
  ExpectFailed("not with the order of the jobs");
}

INSTANTIATE_TEST_SUITE_P(Answers, NonsenseTest,
                         testing::Values("", "nonsense", "[]", "{}", R"({"order": 7})",
                                         R"({"order": [1, 2]})", R"({"order": [1, 2, 2]})",
                                         R"({"order": [1, 2, 4]})", R"({"order": [1, 2, -3]})",
                                         R"({"order": [1, 2, "3"]})", R"({"order": [1, 2, 3.5]})",
                                         R"({"order": [1, 2, 3, 3]})",
                                         R"({"order": [1, 2, 3], "reason": "\0377"})", "\\0377\\0376\\0001"));

TEST(OwnPolicyNameTest, APathIsAnOwnPolicyAndMustBeThere) {
  EXPECT_TRUE(IsOwnPolicy("/home/me/mine"));
  EXPECT_FALSE(IsOwnPolicy("fair"));
  EXPECT_TRUE(CheckOwnPolicy("/bin/sh\t-c\t/bin/sh").ok());
  EXPECT_FALSE(CheckOwnPolicy("/nowhere/mine").ok());
  EXPECT_FALSE(CheckOwnPolicy("/bin/sh\t/nowhere/mine.py").ok());
  EXPECT_EQ(PolicyTitle("/usr/bin/python3\t-m\thocket_policy\t/home/me/mine.py"), "mine.py");
  EXPECT_EQ(PolicyTitle("fair"), "fair");
}

}  // namespace
}  // namespace hocket::coordinator
