// Accepting a Grant and taking it back, in every order.
//
// A job that wants two turns and a coordinator, with the messages between them in order; the coordinator may
// take back, and may be killed and started again. Each half of an atomic operation on the word, each message
// sent and each message read is one transition. Every state that can be reached is visited once:
//   a Grant that was taken back is never obeyed
//   one that could not be taken back was obeyed
//   no message breaks the protocol, and where nothing can happen any more the job has had its turns
#include "csrc/wire/grant_word.h"

#include <gtest/gtest.h>

#include <compare>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hocket::wire {
namespace {

enum class Phase : std::uint8_t { kNone, kAsked, kAccepting, kHeld };
enum class Knows : std::uint8_t { kNothing, kWaits, kGranted, kTakingBack, kAccepted, kTakenBack };
// To the job: Grant or the end of the connection. To the coordinator: Wait, TurnOver, or Join with the turn.
enum class What : std::uint8_t { kGrant, kEnd, kWait, kTurnOver, kJoinWithTurn };
struct Said {
  What what;
  std::uint64_t wait = 0;
  auto operator<=>(const Said&) const = default;
};

struct World {
  std::uint64_t word = 0;
  // The job.
  Phase phase = Phase::kNone;
  std::uint64_t waits = 0;
  std::uint64_t job_saw = 0;
  int turns_left = 2;
  std::uint64_t obeyed = 0;  // the last Wait whose Grant it obeyed
  // The coordinator.
  Knows knows = Knows::kNothing;
  std::uint64_t wait = 0;
  std::uint64_t coordinator_saw = 0;
  int take_backs_left = 2;
  int deaths_left = 1;
  bool has_tried = false;  // once for each Grant
  std::vector<Said> to_job, to_coordinator;
  auto operator<=>(const World&) const = default;
};

struct Bugs {
  bool plain_stores = false;  // the job stores what it has decided, whatever the word is meanwhile
  bool same_number = false;   // a repeated Wait has the number of the first
  bool counts_anew = false;   // after a restart the job counts its Waits from 1
};

class Search {
 public:
  explicit Search(Bugs bugs = {}) : bugs_(bugs) {}

  // The first promise that is broken; empty: none is.
  std::string Run() {
    todo_ = {World{}};
    while (!todo_.empty() && violation_.empty()) {
      const World world = todo_.back();
      todo_.pop_back();
      if (!seen_.insert(world).second) continue;
      moved_ = false;
      JobActs(world);
      JobReads(world);
      CoordinatorActs(world);
      CoordinatorReads(world);
      CoordinatorDies(world);
      if (!moved_ && world.turns_left > 0) violation_ = "the job never gets its turns";
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  bool taken_back() const { return taken_back_; }
  bool refused() const { return refused_; }

 private:
  void Go(const World& next) {
    moved_ = true;
    todo_.push_back(next);
  }

  void SayWait(World& w, bool again = false) {
    w.phase = Phase::kAsked;
    if (!again || !bugs_.same_number) ++w.waits;
    w.to_coordinator.push_back({What::kWait, w.waits});
  }

  void JobActs(World w) {
    if (w.phase == Phase::kNone && w.turns_left > 0) {
      SayWait(w);
      return Go(w);
    }
    if (w.phase == Phase::kAccepting) return Accept(w);
    if (w.phase != Phase::kHeld) return;
    w.phase = Phase::kNone;
    --w.turns_left;
    w.to_coordinator.push_back({What::kTurnOver});
    Go(w);
  }

  void Accept(World w) {
    const auto next = transition::Accept(w.job_saw, w.waits);
    if (!next) {
      SayWait(w, /*again=*/true);
    } else if (w.word == w.job_saw || bugs_.plain_stores) {
      w.word = *next;
      w.phase = Phase::kHeld;
      w.obeyed = w.waits;
      if (w.knows == Knows::kTakenBack && w.wait == w.waits) violation_ = "obeyed, though taken back";
    } else {
      w.job_saw = w.word;
    }
    Go(w);
  }

  void JobReads(World w) {
    if (w.to_job.empty() || w.phase == Phase::kAccepting) return;
    const Said said = w.to_job.front();
    w.to_job.erase(w.to_job.begin());
    if (said.what == What::kGrant) {
      if (w.phase != Phase::kAsked) violation_ = "a Grant for a job that does not ask";
      w.phase = Phase::kAccepting;
      w.job_saw = w.word;
    } else {
      w.to_coordinator.clear();  // went to the one that is dead
      if (bugs_.counts_anew) w.waits = 0;
      if (w.phase == Phase::kHeld) w.to_coordinator.push_back({What::kJoinWithTurn});
      if (w.phase == Phase::kAsked) SayWait(w);
    }
    Go(w);
  }

  void CoordinatorActs(World w) {
    if (w.knows == Knows::kWaits) {
      World granted = w;
      granted.knows = Knows::kGranted;
      granted.has_tried = false;
      granted.to_job.push_back({What::kGrant, w.wait});
      Go(granted);
    }
    if (w.knows == Knows::kGranted && w.take_backs_left > 0 && !w.has_tried) {
      World trying = w;
      trying.knows = Knows::kTakingBack;
      trying.has_tried = true;
      trying.coordinator_saw = w.word;
      --trying.take_backs_left;
      Go(trying);
    }
    if (w.knows == Knows::kTakingBack) TakeBack(w);
  }

  void TakeBack(World w) {
    const auto next = transition::TakeBack(w.coordinator_saw, w.wait);
    if (!next) {
      refused_ = true;
      w.knows = Knows::kAccepted;
      if (w.obeyed < w.wait) violation_ = "not taken back, though not obeyed";
    } else if (w.word == w.coordinator_saw) {
      taken_back_ = true;
      w.word = *next;
      w.knows = Knows::kTakenBack;
      if (w.obeyed == w.wait) violation_ = "taken back, though obeyed";
    } else {
      w.coordinator_saw = w.word;
    }
    Go(w);
  }

  // One event at a time: not in the midst of a take-back. Dead (an end is on its way): nobody reads.
  void CoordinatorReads(World w) {
    const bool dead = !w.to_job.empty() && w.to_job.back().what == What::kEnd;
    if (w.to_coordinator.empty() || w.knows == Knows::kTakingBack || dead) return;
    const Said said = w.to_coordinator.front();
    w.to_coordinator.erase(w.to_coordinator.begin());
    const bool has_turn = w.knows == Knows::kGranted || w.knows == Knows::kAccepted;
    if (said.what == What::kWait) {
      if (has_turn || w.knows == Knows::kWaits) violation_ = "Wait from a job that has the turn, or waits";
      w.knows = Knows::kWaits;
      w.wait = said.wait;
    } else if (said.what == What::kTurnOver) {
      if (!has_turn) violation_ = "TurnOver from a job that has no turn";
      w.knows = Knows::kNothing;
    } else {
      w.knows = Knows::kAccepted;
      w.has_tried = true;
    }
    Go(w);
  }

  void CoordinatorDies(World w) {
    if (w.deaths_left == 0) return;
    --w.deaths_left;
    w.knows = Knows::kNothing;
    w.wait = 0;
    w.to_job.push_back({What::kEnd});
    Go(w);
  }

  const Bugs bugs_;
  std::set<World> seen_;
  std::vector<World> todo_;
  std::string violation_;
  bool moved_ = false, taken_back_ = false, refused_ = false;
};

TEST(GrantWordTest, EveryOrderOfAcceptingAndTakingBackKeepsEveryPromise) {
  Search search;
  EXPECT_EQ(search.Run(), "");
  EXPECT_GT(search.states(), 500u);
  EXPECT_TRUE(search.taken_back());
  EXPECT_TRUE(search.refused());
}

TEST(GrantWordTest, AJobThatStoresWithoutLookingIsCaught) {
  EXPECT_EQ(Search({.plain_stores = true}).Run(), "obeyed, though taken back");
}

TEST(GrantWordTest, AWaitRepeatedUnderItsOldNumberIsCaught) {
  EXPECT_NE(Search({.same_number = true}).Run(), "");
}

TEST(GrantWordTest, AJobThatCountsAnewAfterARestartIsCaught) {
  EXPECT_NE(Search({.counts_anew = true}).Run(), "");
}

TEST(GrantWordTest, WhatWasDecidedStaysSo) {
  std::atomic<std::uint64_t> word{0};
  EXPECT_TRUE(AcceptGrant(word, 1));
  EXPECT_FALSE(TakeGrantBack(word, 1));
  EXPECT_TRUE(TakeGrantBack(word, 2));
  EXPECT_FALSE(TakeGrantBack(word, 2));
  EXPECT_FALSE(AcceptGrant(word, 2));
  EXPECT_TRUE(AcceptGrant(word, 5));
}

TEST(GrantWordTest, AnOlderNumberDecidesNothing) {
  std::atomic<std::uint64_t> word{0};
  ASSERT_TRUE(AcceptGrant(word, 7));
  EXPECT_FALSE(TakeGrantBack(word, 6));
  EXPECT_FALSE(AcceptGrant(word, 6));
  EXPECT_EQ(word.load(), 14u);
}

TEST(GrantWordTest, AWaitWithoutANumberCannotBeTakenBack) {
  std::atomic<std::uint64_t> word{0};
  EXPECT_FALSE(TakeGrantBack(word, 0));
  EXPECT_EQ(word.load(), 0u);
}

// Under real threads: of two who want the same Grant one gets it.
TEST(GrantWordStressTest, OneOfTwoIsFirst) {
  constexpr std::uint64_t kRounds = 50'000;
  std::atomic<std::uint64_t> word{0};
  std::vector<char> accepted(kRounds + 1), taken_back(kRounds + 1);
  std::thread coordinator([&] {
    for (std::uint64_t wait = 1; wait <= kRounds; ++wait) {
      taken_back[wait] = TakeGrantBack(word, wait);
      while (word.load() < 2 * wait) std::this_thread::yield();
    }
  });
  for (std::uint64_t wait = 1; wait <= kRounds; ++wait) {
    accepted[wait] = AcceptGrant(word, wait);
    while (word.load() < 2 * wait) std::this_thread::yield();
  }
  coordinator.join();
  // Who is a round behind comes too late, and is told so: never both.
  for (std::uint64_t wait = 1; wait <= kRounds; ++wait)
    ASSERT_FALSE(accepted[wait] && taken_back[wait]) << "both have decided about " << wait;
}

}  // namespace
}  // namespace hocket::wire
