// The conversations of PROTOCOL.md, as scripts. Add to them when the protocol grows; recordings that exist
// stay as they are.
#include "tests/recorded/recording.h"

namespace hocket::recorded {
namespace {

constexpr std::uint64_t kServersFirst = 6;  // of its turns: five have gone before
constexpr int kA = 0, kB = 1, kC = 2, kRank0 = 3, kRank1 = 4, kOther = 5, kPeople = 6;

void Append(Recording& lines, Recording more) {
  for (Line& line : more) lines.push_back(std::move(line));
}

wire::Join JoinOf(const std::string& name, const std::string& device) {
  return {.name = name,
          .program = "train.py",
          .device = device,
          .device_name = "a GPU",
          .capacity = 1000,
          .hocket_version = "recorded",
          .torch_version = "2.11.0",
          .heeds_limit = true,
          .heeds_restore = true,
          .stands_by = true,
          .counts_arena = true};
}

Recording People(const std::string& command, const std::string& arguments) {
  return {Say(kPeople, wire::Command{command, arguments}), Hear<wire::CommandResult>(kPeople)};
}

// Join, first turn, arena, a hand-over, a spill, and back.
Recording TwoJobs() {
  return {
      Say(kA, JoinOf("a", "gpu0"), Carries::kPage),
      Hear<wire::Joined>(kA),
      Say(kA, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Grant>(kA),
      Say(kA, wire::ArenaGrew{.chunk = 1, .size = 64}, Carries::kMemory),
      Say(kB, JoinOf("b", "gpu0"), Carries::kPage),
      Hear<wire::Joined>(kB),
      Hear<wire::ArenaExport>(kA),
      Say(kA, wire::ArenaGrew{.chunk = 1, .size = 64, .to_job = 2}, Carries::kMemory),
      Hear<wire::ArenaAdd>(kB),
      Say(kB, wire::ArenaHeard{.count = 1}),
      Say(kB, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Yield>(kA),
      Say(kA, wire::Report{.persistent = 700, .steps = 1}),
      Say(kA, wire::ArenaLost{.chunk = 1}),
      Hear<wire::ArenaDrop>(kB),
      Say(kA, wire::TurnOver{.turn = 1,
                             .steps = 1,
                             .turn_steps = 1,
                             .drain_ns = 1000,
                             .persistent = 700,
                             .transient_peak = 64,
                             .movable = true,
                             .ready_ns = 2000}),
      Hear<wire::Grant>(kB),
      Say(kA, wire::Wait{.number = 2, .movable = true, .persistent = 700}),
      Hear<wire::Yield>(kB),
      Say(kB, wire::NeedRoom{.bytes = 400, .says_free = true, .device_free = 100, .persistent = 100}),
      Hear<wire::Spill>(kA),
      Say(kA,
          wire::Spilled{
              .request = 1, .freed = 200, .persistent = 500, .spilled = 200, .movable = true, .more = true}),
      Say(kA, wire::Spilled{.request = 1, .freed = 200, .persistent = 300, .spilled = 400, .movable = true}),
      Hear<wire::Room>(kB),
      Say(kB, wire::TurnOver{.turn = 2, .steps = 1, .turn_steps = 1, .persistent = 500, .movable = true}),
      Hear<wire::Grant>(kA),
      Say(kA, wire::LacksHeadroom{.bytes = 50}),
      Hear<wire::Spill>(kB),
      Say(kB, wire::Spilled{.request = 2, .freed = 50, .persistent = 450, .spilled = 50, .movable = true}),
      Hear<wire::HeadroomMade>(kA),
  };
}

Recording WhatPeopleSay() {
  Recording lines;
  Append(lines, People("version", "{}"));
  Append(lines, People("status", "{}"));
  Append(lines, People("explain", R"({"job":"b"})"));
  Append(lines, People("policy", R"({"name":"priority","bound":0.05})"));
  Append(lines, People("set", R"({"job":"a","weight":2,"priority":"high","memory_limit":900})"));
  lines.push_back(Hear<wire::Limit>(kA));
  Append(lines, People("quota", R"({"job":"b","time_cap":0.5})"));
  Append(lines, People("quota", R"({"job":"b","time_cap":null})"));
  Append(lines, People("pause", R"({"job":"b"})"));
  Append(lines, People("resume", R"({"job":"b"})"));
  Append(lines, People("turns", R"({"since":0})"));
  Append(lines, People("jobs", "{}"));
  Append(lines, People("logs", "{}"));
  Append(lines, People("switch-share", "{}"));
  Append(lines, People("no-such-command", "{}"));
  return lines;
}

// The coordinator is killed in A's turn; all come back, and A leaves.
Recording Restarted() {
  wire::Join a = JoinOf("a", "gpu0");
  a.rejoin = a.holds_turn = true;
  a.job = 1;
  a.turn = 3;
  a.persistent = 300;
  a.spilled = 400;
  a.steps = 1;
  wire::Join b = JoinOf("b", "gpu0");
  b.rejoin = true;
  b.job = 2;
  b.persistent = 500;
  b.steps = 1;
  return {
      Do(0, "restart"),
      Say(kA, a, Carries::kPage),
      Hear<wire::Joined>(kA),
      Say(kB, b, Carries::kPage),
      Hear<wire::Joined>(kB),
      Hear<wire::ArenaDrop>(kB),
      Say(kB, wire::Wait{.number = 2, .movable = true, .persistent = 500}),
      Hear<wire::Yield>(kA),
      Say(kA, wire::TurnOver{.turn = 3, .steps = 2, .turn_steps = 1, .persistent = 300, .spilled = 400}),
      Hear<wire::Grant>(kB),
      Say(kA, wire::Leave{.keeps_running = true}),
      Say(kB, wire::Leave{}),
      Do(kA, "hang up"),
      Do(kB, "hang up"),
  };
}

Recording AGang() {
  return {
      Say(kRank0, JoinOf("rank0", "gpu1"), Carries::kPage),
      Hear<wire::Joined>(kRank0),
      Say(kRank1, JoinOf("rank1", "gpu2"), Carries::kPage),
      Hear<wire::Joined>(kRank1),
      Say(kRank0, wire::Gang{.gang = "ddp", .rank = 0, .size = 2}),
      Say(kRank1, wire::Gang{.gang = "ddp", .rank = 1, .size = 2}),
      Say(kRank0, wire::Wait{.number = 1, .movable = true}),
      Say(kRank1, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Grant>(kRank0),
      Hear<wire::Grant>(kRank1),
      Say(kRank0, wire::Report{.steps = 3}),
      Say(kRank1, wire::Report{.steps = 3}),
      Say(kOther, JoinOf("other", "gpu1"), Carries::kPage),
      Hear<wire::Joined>(kOther),
      Say(kOther, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Yield>(kRank0),
      Hear<wire::Yield>(kRank1),
      Do(kRank1, "hang up"),
      Do(kRank0, "hang up"),
      Do(kOther, "hang up"),
  };
}

// One that serves and one that trains: the trainer stands by.
Recording ARequest() {
  wire::Join serves = JoinOf("serves", "gpu3");
  serves.serves = true;
  return {
      Say(kB, serves, Carries::kPage),
      Hear<wire::Joined>(kB),
      Say(kB, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Grant>(kB),
      Say(kB, wire::TurnOver{.turn = kServersFirst, .steps = 1, .turn_steps = 1, .movable = true}),
      Say(kC, JoinOf("trains", "gpu3"), Carries::kPage),
      Hear<wire::Joined>(kC),
      Say(kC, wire::Wait{.number = 1, .movable = true}),
      Hear<wire::Grant>(kC),
      Say(kB, wire::Wait{.number = 2, .movable = true}),
      Hear<wire::StandBy>(kC),
      Say(kC, wire::StoodBy{.turn = kServersFirst + 1}),
      Hear<wire::Grant>(kB),
      Say(kB, wire::TurnOver{.turn = kServersFirst + 1, .steps = 2, .turn_steps = 1, .movable = true}),
      Hear<wire::GoOn>(kC),
  };
}

// What is refused, and stays a sentence.
Recording Refusals() {
  return {
      Say(7, wire::Wait{}),
      Hear<wire::Refused>(7),
      Say(8, wire::Join{.name = "w", .device = "gpu0", .capacity = 1000, .weight = 0}),
      Hear<wire::Refused>(8),
  };
}

}  // namespace

Recording CoordinatorScript() {
  Recording lines;
  for (const auto& part : {TwoJobs(), WhatPeopleSay(), Restarted(), AGang(), ARequest(), Refusals()})
    Append(lines, part);
  return lines;
}

Recording JobScript() {
  return {
      Do(0, "join"),
      Hear<wire::Join>(0),
      Say(0, wire::Joined{.job = 5,
                          .name = "job",
                          .lane_lock = "lane.lock",
                          .sharing_with = "other",
                          .hears_movable = true,
                          .hears_parts = true,
                          .fills_arena = true,
                          .hears_headroom = true}),
      Do(0, "await"),
      // An arena that others have made grow, and a limit.
      Say(0, wire::ArenaAdd{.chunk = 3, .size = 64}, Carries::kMemory),
      Hear<wire::ArenaHeard>(0),
      Say(0, wire::ArenaDrop{.chunk = 3}),
      Say(0, wire::ArenaExport{.to_job = 12}),
      Hear<wire::ArenaGrew>(0),
      Say(0, wire::Limit{.memory = 900, .together = "group g may hold 900 B", .own = 0}),
      Say(0, wire::Pace{.most_queued_ns = 3'000'000}),
      // Its first turn: it stands by for a request, lacks room, and is asked to give the turn up.
      Do(0, "begin step"),
      Hear<wire::Wait>(0),
      Say(0, wire::Grant{.turn = 1, .contended = false, .reason = "nobody else waits"}),
      Do(0, "await"),
      Do(0, "busy"),
      Say(0, wire::StandBy{.turn = 1}),
      Say(0, wire::Spill{.request = 50, .bytes = 0}),
      Hear<wire::Spilled>(0),  // so it has heard the one before
      Do(0, "allocate"),
      Hear<wire::StoodBy>(0),
      Say(0, wire::GoOn{.turn = 1}),
      Do(0, "await"),
      Do(0, "idle"),
      Do(0, "lack"),
      Do(0, "allocate"),
      Hear<wire::NeedRoom>(0),
      Do(0, "lack no more"),
      Say(0, wire::Room{.ok = true}),
      Do(0, "await"),
      Say(0, wire::Yield{.turn = 1, .now = true, .give_back = true}),
      Say(0, wire::Spill{.request = 52, .bytes = 0}),
      Hear<wire::Spilled>(0),
      Do(0, "end step"),
      Do(0, "begin step"),
      Hear<wire::TurnOver>(0),
      Hear<wire::Wait>(0),
      // It waits: it is spilled, and brings some of it back ahead.
      Say(0, wire::Spill{.request = 51, .bytes = 80}),
      Hear<wire::Spilled>(0),
      Say(0, wire::Near{.wait = 2}),
      Say(0, wire::HeadroomMade{.turn = 1}),
      Say(0, wire::Restore{.request = 7, .bytes = 40}),
      Hear<wire::Restored>(0),
      Say(0, wire::Grant{.turn = 2, .fresh_arena = true, .reason = "its turn"}),
      Do(0, "await"),
      Do(0, "end step"),
      Do(0, "await"),
      // A rank of a gang is told after which step to stop.
      Do(0, "join gang"),
      Hear<wire::Gang>(0),
      Say(0, wire::Yield{.turn = 2, .now = true, .stop_step = 3}),
      Hear<wire::YieldAck>(0),
      Do(0, "begin step"),
      Do(0, "end step"),
      Do(0, "begin step"),
      Hear<wire::TurnOver>(0),
      Hear<wire::Wait>(0),
      Say(0, wire::Grant{.turn = 3}),
      Do(0, "await"),
      Do(0, "end step"),
      Do(0, "leave"),
      Hear<wire::Leave>(0),
      Do(0, "await"),
  };
}

}  // namespace hocket::recorded
