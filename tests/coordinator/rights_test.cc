// What a user may see and do, without a daemon.
#include "coordinator/server/rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr Asker kRoot{.uid = 0, .governs = true};
constexpr Asker kAnnAsks{.uid = 1};
constexpr Asker kBobAsks{.uid = 2};

std::vector<NamedJob> Jobs() {
  return {{.id = 1, .name = "train", .user = 1},
          {.id = 2, .name = "train", .user = 2},
          {.id = 3, .name = "eval", .user = 2, .gone = true},
          {.id = 4, .name = "eval", .user = 2}};
}

Json Given(const Asker& asker, const std::string& command, Json arguments) {
  const auto permitted = Permitted(asker, command, std::move(arguments), Jobs());
  return permitted.ok() ? *permitted : Json(std::string(permitted.status().message()));
}

TEST(RightsTest, AJobIsFoundByNameAmongTheAskersOwn) {
  EXPECT_EQ(Given(kAnnAsks, "pause", {{"job", "train"}})["job"], 1);
  EXPECT_EQ(Given(kBobAsks, "pause", {{"job", "train"}})["job"], 2);
  EXPECT_EQ(Given(kBobAsks, "pause", {{"job", 2}})["job"], 2);
  EXPECT_THAT(Given(kAnnAsks, "pause", {{"job", "eval"}}).dump(), HasSubstr("no job 'eval' of yours"));
  EXPECT_THAT(Given(kAnnAsks, "pause", {{"job", 4}}).dump(), HasSubstr("job 4 is uid 2's"));
}

TEST(RightsTest, OneThatRunsIsMeantBeforeOneThatIsGone) {
  EXPECT_EQ(Given(kBobAsks, "explain", {{"job", "eval"}})["job"], 4);
  EXPECT_EQ(Given(kRoot, "explain", {{"job", "eval"}})["job"], 4);
}

TEST(RightsTest, RootNamesAJobByNumberWhereTwoUsersHaveTheName) {
  EXPECT_THAT(Given(kRoot, "pause", {{"job", "train"}}).dump(), HasSubstr("1 (uid 1), 2 (uid 2)"));
  EXPECT_EQ(Given(kRoot, "pause", {{"job", 2}})["job"], 2);
}

TEST(RightsTest, AGroupIsTheUsersWhoseJobItIs) {
  EXPECT_EQ(Given(kBobAsks, "set", {{"job", "train"}, {"group", "g"}})["group"], "2.g");
  EXPECT_EQ(Given(kRoot, "set", {{"job", 2}, {"group", "g"}})["group"], "2.g");
  EXPECT_EQ(Given(kBobAsks, "set", {{"job", 2}, {"group", nullptr}})["group"], nullptr);
  EXPECT_EQ(Given(kBobAsks, "quota", {{"group", "g"}})["group"], "2.g");
  EXPECT_EQ(Given(kRoot, "quota", {{"group", "2.g"}})["group"], "2.g");
  for (const char* wrong : {"g", ".g", "2.", "x.g", "02.g", "-2.g"})
    EXPECT_THAT(Given(kRoot, "quota", {{"group", wrong}}).dump(), HasSubstr("give his uid")) << wrong;
}

TEST(RightsTest, CapsAreOnesOwnToSetAndGuaranteesRoots) {
  EXPECT_TRUE(Given(kAnnAsks, "quota", {{"job", "train"}, {"memory_cap", 1}}).is_object());
  EXPECT_THAT(Given(kAnnAsks, "quota", {{"job", "train"}, {"memory_guarantee", 1}}).dump(),
              HasSubstr("only root"));
  EXPECT_TRUE(Given(kAnnAsks, "quota", {{"user", 1}}).is_object());
  EXPECT_THAT(Given(kAnnAsks, "quota", {{"user", 1}, {"time_cap", nullptr}}).dump(), HasSubstr("only root"));
  EXPECT_TRUE(Given(kRoot, "quota", {{"user", 1}, {"time_cap", nullptr}}).is_object());
}

TEST(RightsTest, WhoGovernsSeesAll) {
  const Json jobs = {{"jobs", {{{"user", 1}, {"name", "a"}}}}};
  EXPECT_EQ(AsSeenBy(kRoot, "jobs", jobs), jobs);
  EXPECT_EQ(AsSeenBy(kAnnAsks, "jobs", jobs), jobs);
  EXPECT_EQ(AsSeenBy(kBobAsks, "jobs", jobs)["jobs"][0]["name"], "a job of uid 1");
}

TEST(RightsTest, SomeConnectionsAreLeftForOthersAndForRoot) {
  EXPECT_TRUE(MayConnect(kAnnAsks, 3, 3, 16));
  EXPECT_FALSE(MayConnect(kAnnAsks, 4, 4, 16)) << "a quarter is hers";
  EXPECT_FALSE(MayConnect(kBobAsks, 0, 14, 16)) << "the last are root's";
  EXPECT_TRUE(MayConnect(kRoot, 0, 15, 16));
  EXPECT_FALSE(MayConnect(kRoot, 0, 16, 16));
}

}  // namespace
}  // namespace hocket::coordinator
