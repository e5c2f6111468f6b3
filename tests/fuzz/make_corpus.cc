// Writes the inputs that are not text: into FOLDER/codec, FOLDER/core, FOLDER/server and FOLDER/agent real
// messages in the order of real conversations, into FOLDER/recording a block of turns.
//
//   make_corpus tests/fuzz/corpus
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/recording/block.h"
#include "csrc/base/check.h"
#include "csrc/wire/codec.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/moves.h"
#include "tests/wire/random_message.h"

namespace hocket::fuzz {
namespace {

// A conversation, as core_fuzz and server_fuzz play it.
class Story {
 public:
  explicit Story(std::string beginning) { moves_ = std::move(beginning); }

  Story& Says(int who, const wire::Message& message) {
    return Does(who, Move::kGoodFrame, Output().Text(wire::Encode(message).value()));
  }
  Story& Does(int who, Move move, const Output& with = Output()) {
    moves_ += static_cast<char>(who << 4 | static_cast<int>(move));
    moves_ += with.bytes();
    return *this;
  }
  Story& Waits(int ms) { return Does(0, Move::kTime, Output().Short(static_cast<unsigned>(ms))); }
  Story& Asks(const std::string& command, const std::string& arguments) {
    return Says(9, wire::Command{command, arguments});
  }
  const std::string& bytes() const { return moves_; }

 private:
  std::string moves_;
};

wire::Join Job(const std::string& name, uint64_t persistent = 0) {
  return {.name = name,
          .pid = 1,
          .device = "gpu",
          .capacity = 100 << 20,
          .persistent = persistent,
          .heeds_limit = true,
          .heeds_restore = true,
          .stands_by = true};
}

Story TwoInTurn(Story story) {
  story.Says(0, Job("a")).Says(1, Job("b"));
  story.Says(0, wire::Wait{.number = 1}).Says(1, wire::Wait{.number = 1}).Waits(120);
  story.Says(0,
             wire::TurnOver{.turn = 1, .steps = 3, .turn_steps = 3, .persistent = 1 << 20, .movable = true});
  story.Says(1, wire::TurnOver{.turn = 2, .steps = 1, .turn_steps = 1}).Says(1, wire::Leave{});
  return story;
}

Story Spills(Story story) {
  story.Says(0, Job("a", 60 << 20)).Says(1, Job("b", 30 << 20));
  story.Says(0, wire::Report{.persistent = 60 << 20, .spilled = 0, .steps = 1});
  story.Says(1, wire::Wait{.number = 1}).Says(1, wire::NeedRoom{.bytes = 40 << 20, .says_free = true});
  story.Says(0, wire::Spilled{.request = 1, .freed = 40 << 20, .persistent = 20 << 20, .spilled = 40 << 20});
  story.Says(
      0, wire::Wait{
             .need = 40 << 20, .number = 1, .movable = true, .persistent = 20 << 20, .spilled = 40 << 20});
  story.Says(1, wire::ArenaGrew{.chunk = 1, .size = 2 << 20})
      .Says(1, wire::TurnOver{.turn = 1, .steps = 1, .movable = true});
  story.Says(0, wire::ArenaLost{1})
      .Says(0, wire::Restored{.request = 1, .restored = 40 << 20, .persistent = 60 << 20});
  return story.Does(1, Move::kDies).Waits(2000);
}

Story GangsAndServes(Story story) {
  wire::Join other = Job("g1");
  other.device = "gpu1";
  story.Says(0, Job("g0")).Says(1, other).Says(2, Job("c"));
  story.Says(0, wire::Gang{"g", 0, 2}).Says(1, wire::Gang{"g", 1, 2});
  story.Says(0, wire::Wait{.number = 1})
      .Says(1, wire::Wait{.number = 1})
      .Says(2, wire::Wait{.number = 1})
      .Waits(200);
  story.Says(0, wire::YieldAck{.turn = 1, .stop_step = 4, .step = 2, .accepted = true});
  story.Says(1, wire::YieldAck{.turn = 1, .stop_step = 4, .step = 3, .accepted = true});
  wire::Join server = Job("s");
  server.serves = true;
  story.Says(3, server).Says(3, wire::Wait{.number = 1}).Says(0, wire::StoodBy{});
  return story.Does(2, Move::kHangsUp).Says(0, wire::TurnOver{.turn = 1, .steps = 4});
}

Story ComesBack(Story story) {
  wire::Join join = Job("a", 10 << 20);
  join.rejoin = join.holds_turn = true;
  join.job = 2;
  join.turn = 5;
  story.Does(0, Move::kRestarts, Output().Byte(3));
  return story.Says(0, join)
      .Says(1, Job("b"))
      .Says(1, wire::Wait{.number = 1})
      .Waits(3000)
      .Says(0, wire::TurnOver{.turn = 5, .steps = 9});
}

Story IsAsked(Story story) {
  story.Says(0, Job("a")).Says(1, Job("b")).Says(0, wire::Wait{.number = 1});
  for (const char* command : {"status", "jobs", "logs", "turns", "version", "policy", "switch-share"})
    story.Asks(command, "{}");
  story.Asks(
      "set",
      R"({"job":"a","weight":2,"priority":"high","total_steps":9,"group":"x","memory_limit":1048576})");
  story.Asks("quota", R"({"group":"x","time_cap":0.5,"time_guarantee":0.2,"memory_cap":2097152})");
  story.Asks("quota", R"({"job":"b","time_cap":0.5,"memory_guarantee":1048576})")
      .Asks("quota", R"({"user":0})");
  story.Asks("pause", R"({"job":"a"})").Asks("explain", R"({"job":"a"})").Asks("resume", R"({"job":1})");
  story.Asks("policy", R"({"name":"pack","together":3,"bound":0.1,"overdue":"go-on"})");
  return story.Asks("switch-share", R"({"share":0.1})").Asks("turns", R"({"since":1})");
}

// A conversation from the other side, as agent_fuzz plays it: the coordinator's words, and what the program
// does.
class JobsStory {
 public:
  explicit JobsStory(unsigned settings) { moves_ += static_cast<char>(settings); }

  JobsStory& Hears(const wire::Message& message, int slot = 0) {
    return Does(AgentMove::kGoodFrame, slot, Output().Text(wire::Encode(message).value()));
  }
  JobsStory& Does(AgentMove move, int slot = 0, const Output& with = Output()) {
    moves_ += static_cast<char>(slot << 4 | static_cast<int>(move));
    moves_ += with.bytes();
    return *this;
  }
  const std::string& bytes() const { return moves_; }

 private:
  std::string moves_;
};

JobsStory Joins(unsigned settings) {
  return JobsStory(settings).Hears(
      wire::Joined{.job = 5, .name = "job", .lane_lock = "lock", .hears_movable = true, .hears_parts = true});
}

JobsStory HasATurn() {
  JobsStory story = Joins(1);
  story.Hears(wire::ArenaAdd{.chunk = 1, .size = 64}, 1).Hears(wire::Limit{.memory = 500});
  story.Does(AgentMove::kBeginsStep).Hears(wire::Grant{.turn = 1, .fresh_arena = true});
  story.Does(AgentMove::kAllocates).Hears(wire::HeadroomMade{.turn = 1});
  story.Hears(wire::Yield{.turn = 1}).Hears(wire::Yield{.turn = 1, .now = true});
  return story.Does(AgentMove::kEndsStep).Hears(wire::ArenaExport{.to_job = 2}).Does(AgentMove::kLeaves);
}

JobsStory IsSpilled() {
  JobsStory story = Joins(1 | 16);
  story.Does(AgentMove::kBeginsStep).Hears(wire::Spill{.request = 1, .bytes = 50});
  story.Hears(wire::Near{.wait = 1})
      .Hears(wire::Restore{.request = 2, .bytes = 10})
      .Hears(wire::Grant{.turn = 3, .contended = true});
  story.Hears(wire::Room{.ok = true, .step_aside = true}).Hears(wire::Grant{.turn = 4});
  return story.Hears(wire::Room{.reason = "no room"}).Does(AgentMove::kEndsStep, 1);
}

JobsStory StandsBy() {
  JobsStory story = Joins(1);
  story.Does(AgentMove::kBeginsStep).Hears(wire::Grant{.turn = 1}).Hears(wire::Pace{.most_queued_ns = 1000});
  story.Hears(wire::StandBy{.turn = 1}).Does(AgentMove::kAllocates).Hears(wire::GoOn{.turn = 1});
  story.Does(AgentMove::kMeets).Hears(wire::Yield{.turn = 1, .now = true, .stop_step = 2});
  return story.Does(AgentMove::kEndsStep).Does(AgentMove::kGoesAway).Does(AgentMove::kComesBack);
}

JobsStory LosesItsCoordinator() {
  JobsStory story = Joins(1 | 32);
  story.Does(AgentMove::kBeginsStep).Does(AgentMove::kHangsUp);
  story.Hears(wire::Joined{.job = 5, .name = "job", .lane_lock = "lock"}).Hears(wire::Grant{.turn = 7});
  story.Does(AgentMove::kIsGone).Does(AgentMove::kEndsStep).Does(AgentMove::kBeginsStep, 1);
  return story.Hears(wire::Refused{.reason = "of another version"});
}

// A block of a recording.
std::string TwoTurns() {
  coordinator::BlockWriter writer;
  coordinator::TurnEnded turn{
      .turn = 1, .job = 1, .name = "a", .device = "gpu", .steps = 2, .reason = "came first"};
  turn.start = absl::UnixEpoch() + absl::Seconds(1);
  turn.end = turn.start + absl::Milliseconds(20);
  writer.AddJob(R"({"id": 1, "pid": 7, "name": "a", "arrival_s": 0.5, "steps": 2, "step_ms": 10.0})");
  writer.Add(turn);
  turn.turn = 2, turn.job = 2, turn.name = "b", turn.died = true;
  turn.start = turn.end, turn.end += absl::Milliseconds(5);
  writer.Add(turn);
  writer.AddLost(3);
  return writer.Take(/*epoch=*/1, absl::Hours(24 * 365 * 56));
}

void Write(const std::string& folder, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
}

void WriteAll(const std::string& folder) {
  std::mt19937_64 random(1);
  for (const wire::Message& message : wire::OneOfEach(random))
    Write(folder + "/codec", absl::AsciiStrToLower(wire::NameOf(message)), wire::Encode(message).value());
  const auto core = [](int policy) {
    return Story(Output().Byte(static_cast<unsigned>(policy)).Byte(1).bytes());
  };
  Write(folder + "/core", "two_in_turn", TwoInTurn(core(0)).bytes());
  Write(folder + "/core", "spills", Spills(core(1)).bytes());
  Write(folder + "/core", "gangs_and_serves", GangsAndServes(core(2)).bytes());
  Write(folder + "/core", "comes_back", ComesBack(core(3)).bytes());
  const Story fresh(Output().Byte(0).bytes());
  Write(folder + "/server", "two_in_turn", TwoInTurn(fresh).bytes());
  Write(folder + "/server", "spills", Spills(fresh).bytes());
  Write(folder + "/server", "gangs_and_serves", GangsAndServes(fresh).bytes());
  Write(folder + "/server", "is_asked", IsAsked(fresh).bytes());
  const std::string job = "1 1\n1.5 high 10 0\nmemory_guarantee 5\ntime_cap 0.5 1 2 0\n";
  const Story restarted(
      Output().Byte(2).Byte(0).Text("policy srtf\nquota group x 0.5 0.1 0 0\n").Byte(2).Text(job).bytes());
  Write(folder + "/server", "comes_back", ComesBack(restarted).bytes());
  Write(folder + "/agent", "has_a_turn", HasATurn().bytes());
  Write(folder + "/agent", "is_spilled", IsSpilled().bytes());
  Write(folder + "/agent", "stands_by", StandsBy().bytes());
  Write(folder + "/agent", "loses_its_coordinator", LosesItsCoordinator().bytes());
  const std::string day = TwoTurns();
  Write(folder + "/recording", "file", day);
  Write(folder + "/recording", "body", day.substr(coordinator::kBlockHeader));
}

}  // namespace
}  // namespace hocket::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_corpus FOLDER\n";
    return 2;
  }
  hocket::fuzz::WriteAll(argv[1]);
}
