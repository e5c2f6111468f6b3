// The protocol around the state word as a graph of states, for exhaustive search.
//
// Two threads of a job, its agent and a coordinator, which may have it stand by meanwhile. A thread begins
// and ends steps, or allocates outside them; in the midst of a step it may lack room, and is then told to let
// others go first. Every atomic operation on the word, every lock and every message is one transition; the
// word's own transitions are the product's (csrc/client/state_word.h), the paths around them follow doors.cc,
// hand_over.cc and agent.cc line by line. Waiting for device work and for time is a choice of the search. A
// message wakes a thread that polls at the door, or else the agent, as csrc/client/connection.h has it; while
// a thread has been woken and does not run yet, further messages wake nobody (so do kernels before 5.8).
//
// A Search visits every reachable state once and reports the first one that breaks a promise:
//   nobody is in a step, or has an allocation under way, after the turn was passed (but in a guessed step,
//   which is not in the model)
//   one gives the turn, not two
//   who stands by and is in no step says so, before it may go on
//   where nothing can happen any more, everybody has finished, every message was heard and no asked-for turn
//   is still held
#ifndef HOCKET_TESTS_CLIENT_STATE_WORD_MODEL_H_
#define HOCKET_TESTS_CLIENT_STATE_WORD_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/client/state_word.h"

namespace hocket::model {

enum Pc : std::uint8_t {
  kStart,        // of a step or of an allocation
  kBeginStore,   // broken: the second half of Begin
  kUndo,         // Begin has said no
  kLockDoor,     // about to become a waiter
  kLoop,         // in WaitAsWaiter(), mutex held
  kSleep,        // waits for a notification
  kToPoll,       // reads in the agent's place: about to poll
  kPoll,         // waits for a message there
  kPollWoken,    // about to receive
  kReading,      // receives, receive mutex held
  kWoken,        // notified: about to lock the mutex
  kEnterOrGive,  // mutex held, phase held
  kTryGive,      // mutex held: must give
  kEnter,        // mutex held: goes in
  kGive,         // giving, from a door, without the mutex
  kGiveEnd,      // the same, at the end of a step
  kPassed,       // mutex wanted, to end the turn; from a door
  kPassedEnd,    // the same, at the end of a step
  kTaking,       // takes the turn, without the mutex
  kAllocate,     // looks at the word with the allocator locked
  kTouch,        // uses the arena, allocator locked
  kInStep,
  kEndStore,     // broken: the second half of End
  kLacksRoom,    // in an allocation of its step: in AskRoom(), at a door
  kRoomTryGive,  // mutex held: told to step aside
  kRetry,        // tries the allocation of its step again: looks at the word with the allocator locked
  kGiveRoom,     // giving in the midst of its step, without the mutex
  kPassedRoom,   // mutex wanted, to end the turn
  kLockEndSlow,  // EndSlow()
  kEndTryGive,   // mutex held
  kLockTell,     // arms the agent's check
  kFinished,
};

enum AgentPc : std::uint8_t { kReceive, kDrain, kAskStore, kIdleCheck, kIdleTake, kIdleGive, kIdlePassed };
enum PhaseModel : std::uint8_t { kNone, kAsked, kGranted, kTakingPhase, kHeld, kGivingPhase };
enum MessageModel : std::uint8_t {
  kNothing,
  kGrantMessage,
  kYieldIdle,
  kYieldStop,
  kStandByMessage,
  kGoOnMessage
};

struct ThreadState {
  Word seen = 0;  // broken: what the first half has read
  Pc pc = kStart;
  std::uint8_t left = 0;  // steps or allocations
  std::uint8_t waits = 0;
  std::uint8_t admitted = 0;
  std::uint8_t lacks = 0;     // how often it may still lack room
  std::uint8_t mid_step = 0;  // at a door in the midst of its step
  std::uint8_t padding[2] = {};
};

struct State {
  Word word = 0;
  Word agent_seen = 0;
  ThreadState threads[2];
  AgentPc agent = kReceive;
  PhaseModel phase = kNone;
  std::uint8_t mutex = 0;      // 0: free; thread i holds it as i + 1
  std::uint8_t allocator = 0;  // likewise
  std::uint8_t armed = 0;      // the agent will look for idleness
  MessageModel inbox[4] = {};  // of the agent, in order
  std::uint8_t wait_sent = 0;
  std::uint8_t turn_out = 0;  // the coordinator has granted and not got it back
  std::uint8_t yields_left = 0;
  std::uint8_t yields_of_turn = 0;
  std::uint8_t receive_mutex = 0;     // 0: free; thread i holds it as i + 1, the agent as 3
  std::uint8_t reading = 0;           // a thread polls at the door, or is about to
  std::uint8_t left_to_agent = 0;     // something is set aside
  std::uint8_t door_woken = 0;        // by NotifyAll()
  std::uint8_t agent_told = 0;        // that something is to be received
  MessageModel agent_has = kNothing;  // received by the agent, not yet obeyed
  MessageModel aside[6] = {};         // received at the door and left to the agent, in order
  std::uint8_t stand_bys_left = 0;
  std::uint8_t ordered = 0;     // the coordinator has told this turn to stand by, and not to go on
  std::uint8_t stood = 0;       // and has been told that it does
  std::uint8_t stands_by = 0;   // the job has heard it
  std::uint8_t told_stood = 0;  // and has answered
  std::uint8_t look = 0;        // the agent will look whether all stand
  std::uint8_t padding[2] = {};
};

struct Config {
  std::uint8_t steps[2] = {2, 2};
  bool allocates[2] = {false, false};  // instead of stepping
  std::uint8_t yields = 2;
  std::uint8_t lacks[2] = {0, 0};  // so often room is lacking in steps
  std::uint8_t stand_bys = 0;      // so often it is to stand by
  // Seeded bugs.
  bool plain_accesses = false;       // Begin, End and Ask load and store
  bool door_not_woken = false;       // NotifyAll() forgets the thread that reads
  bool reads_one_message = false;    // the thread that reads does not look for more
  bool yield_obeyed_in_use = false;  // by the thread that reads, and the agent does not look for idleness
  bool all_stand = false;            // who steps aside counts every thread in a step as standing
  bool giving_goes_on = false;       // an allocation goes on while the turn is being given
  bool end_not_told = false;         // the end of a step does not tell the agent of one that stands by
  bool go_on_not_told = false;       // who may go on is not notified
};

struct Result {
  std::string violation;  // empty: every promise holds
  std::size_t states = 0;
  std::size_t ends = 0;            // states in which nothing can happen any more
  std::size_t handed_over = 0;     // transitions that passed the turn
  std::size_t yields_at_door = 0;  // obeyed by a thread that reads the Grant
};

class Search {
 public:
  explicit Search(const Config& config) : config_(config) {}
  Result Run();

 private:
  void Expand(const State& state);
  void ExpandThread(const State& state, int index);
  void AtDoor(const State& state, int index);
  void Reading(const State& state, int index);
  void AtEnd(const State& state, int index);
  void Passing(const State& state, int index);
  void LackingRoom(const State& state, int index);
  void ExpandAgent(const State& state);
  void Drain(const State& state);
  void Obey(State s, MessageModel message);
  void Granted(State& s);
  void NotifyAll(State& s);
  void EndTurn(State& s);
  void CheckIdle(const State& state);
  void CheckStandBy(const State& state);
  void EndStandBy(State& s);
  bool StandsStill(const State& s) const;
  void ExpandCoordinator(const State& state);
  void Go(const State& next);
  void CheckPassed(const State& before);
  void CheckEnd(const State& state);
  void Fail(const std::string& promise);

  const Config config_;
  Result result_;
  std::vector<State> todo_;
  bool moved_ = false;
  struct Seen;
  Seen* seen_ = nullptr;
};

}  // namespace hocket::model

#endif  // HOCKET_TESTS_CLIENT_STATE_WORD_MODEL_H_
