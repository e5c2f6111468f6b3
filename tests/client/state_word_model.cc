#include "tests/client/state_word_model.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <unordered_set>
#include <utility>

namespace hocket::model {

struct Search::Seen {
  std::unordered_set<std::string> states;
};

namespace {

namespace t = transition;

bool MustGive(Word word, bool step) {
  if (!step) return !t::HoldsTurn(word);
  return (word & kAskStop) != 0 || ((word & kImplicit) != 0 && (word & kAsks) != 0);
}

template <std::size_t kSize>
void Put(MessageModel (&queue)[kSize], MessageModel message) {
  *std::find(std::begin(queue), std::end(queue) - 1, kNothing) = message;
}

template <std::size_t kSize>
MessageModel Take(MessageModel (&queue)[kSize]) {
  const MessageModel first = queue[0];
  std::move(std::begin(queue) + 1, std::end(queue), std::begin(queue));
  queue[kSize - 1] = kNothing;
  return first;
}

// Wakes one at the door, or tells the agent. False: the queue is full.
bool Say(State& s, MessageModel message) {
  if (s.inbox[3] != kNothing) return false;
  Put(s.inbox, message);
  for (ThreadState& thread : s.threads) {
    if (thread.pc != kPoll && thread.pc != kPollWoken) continue;
    thread.pc = kPollWoken;
    return true;
  }
  s.agent_told = 1;
  return true;
}

}  // namespace

Result Search::Run() {
  const auto seen = std::make_unique<Seen>();
  seen_ = seen.get();
  State start;
  for (int i = 0; i < 2; ++i) {
    start.threads[i].left = config_.steps[i];
    start.threads[i].lacks = config_.lacks[i];
  }
  start.yields_left = config_.yields;
  start.stand_bys_left = config_.stand_bys;
  Go(start);
  while (!todo_.empty() && result_.violation.empty()) {
    const State state = todo_.back();
    todo_.pop_back();
    Expand(state);
  }
  result_.states = seen->states.size();
  return result_;
}

void Search::Go(const State& next) {
  moved_ = true;
  std::string bytes(reinterpret_cast<const char*>(&next), sizeof(next));
  if (seen_->states.insert(std::move(bytes)).second) todo_.push_back(next);
}

void Search::Fail(const std::string& promise) {
  if (result_.violation.empty()) result_.violation = promise;
}

void Search::NotifyAll(State& s) {
  for (ThreadState& thread : s.threads) {
    if (thread.pc == kSleep) thread.pc = kWoken;
  }
  if (s.reading && !config_.door_not_woken) s.door_woken = 1;
}

void Search::EndTurn(State& s) {
  s.word &= ~(kAsks | kStandBy);
  s.stands_by = s.told_stood = s.look = 0;
  s.phase = kNone;
  s.turn_out = 0;  // TurnOver
  s.ordered = s.stood = 0;
  s.yields_of_turn = 0;
  NotifyAll(s);
}

void Search::Granted(State& s) {
  s.word &= ~kAsks;
  s.phase = kGranted;
  NotifyAll(s);
}

void Search::Expand(const State& state) {
  moved_ = false;
  for (int i = 0; i < 2; ++i) ExpandThread(state, i);
  ExpandAgent(state);
  const bool by_job = moved_;
  ExpandCoordinator(state);
  // The coordinator may ask for a turn or never do it: with nothing else to happen the state is an end.
  if (!by_job && !(state.wait_sent && !state.turn_out)) CheckEnd(state);
  if (!by_job && state.ordered && state.stands_by && !state.stood && Count(state.word) == 0)
    Fail("who stands by never says so");
}

void Search::CheckEnd(const State& state) {
  if (state.ordered) return;  // it will be told to go on
  ++result_.ends;
  for (const ThreadState& thread : state.threads) {
    if (thread.pc != kFinished) return Fail("a thread waits for ever");
  }
  if (state.mutex != 0 || state.allocator != 0 || state.receive_mutex != 0)
    return Fail("a lock is held for ever");
  if (state.inbox[0] != kNothing || state.aside[0] != kNothing) Fail("a message is never heard");
  if ((state.word & kHasTurn) && (state.word & kAsks)) Fail("a turn that was asked for is held for ever");
  if (Count(state.word) != 0) Fail("the count is not 0 with nobody in a step");
}

// At the instant in which the turn is passed.
void Search::CheckPassed(const State& before) {
  ++result_.handed_over;
  for (const ThreadState& thread : before.threads) {
    if (thread.pc == kInStep || thread.pc == kEndStore)
      Fail("the turn was passed while a thread was in a step");
    if (thread.pc == kTouch) Fail("the turn was passed in the middle of an allocation");
  }
  if ((before.word & kHasTurn) == 0) Fail("a turn was passed that nobody had");
}

// --- a thread -------------------------------------------------------------------------------------

void Search::ExpandThread(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  const auto self = static_cast<std::uint8_t>(index + 1);
  switch (me.pc) {
    case kStart:
      if (me.left == 0) {
        me.pc = kFinished;
      } else if (config_.allocates[index]) {
        if (s.allocator != 0) return;
        s.allocator = self;
        me.pc = kAllocate;
      } else if (config_.plain_accesses) {
        me.seen = s.word;
        me.pc = kBeginStore;
      } else {
        me.pc = t::Begun(s.word) ? kInStep : kUndo;
        s.word = t::Begin(s.word);
      }
      return Go(s);
    case kBeginStore:
      me.pc = t::Begun(me.seen) ? kInStep : kUndo;
      s.word = t::Begin(std::exchange(me.seen, 0));
      return Go(s);
    case kUndo:
      // What it is told to do here it does at the door: it looks at everything anew.
      if (t::DutyAfter(s.word) != Duty::kNone) s.armed = 1;
      s.word = t::End(s.word);
      me.pc = kLockDoor;
      return Go(s);
    case kAllocate:
      me.pc = t::HoldsTurn(s.word) ? kTouch : kLockDoor;
      if (me.pc == kLockDoor) s.allocator = 0;
      return Go(s);
    case kTouch:
      s.allocator = 0;
      --me.left;
      me.pc = kStart;
      return Go(s);
    case kFinished:
      return;
    case kInStep:
    case kEndStore:
    case kLockEndSlow:
    case kEndTryGive:
    case kLockTell:
      if (me.pc == kInStep && me.lacks > 0) LackingRoom(state, index);
      return AtEnd(state, index);
    case kLacksRoom:
    case kRoomTryGive:
    case kRetry:
      return LackingRoom(state, index);
    case kGiveRoom:
    case kPassedRoom:
    case kGive:
    case kGiveEnd:
    case kPassed:
    case kPassedEnd:
      return Passing(state, index);
    case kToPoll:
    case kPoll:
    case kPollWoken:
    case kReading:
      return Reading(state, index);
    default:
      return AtDoor(state, index);
  }
}

void Search::AtDoor(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  const bool step = !config_.allocates[index] && !me.mid_step;
  const auto self = static_cast<std::uint8_t>(index + 1);
  const auto go_in = [&] {
    s.mutex = 0;
    me.waits = me.admitted = 0;
    me.pc = step ? kInStep : me.mid_step ? kRetry : kStart;
  };
  switch (me.pc) {
    case kLockDoor:
    case kWoken:
      if (s.mutex != 0) return;
      s.mutex = self;
      if (!me.admitted) me.waits = 1;
      me.pc = kLoop;
      return Go(s);
    case kLoop:
      if (me.admitted) {
        go_in();
      } else if (s.stands_by && s.phase == kHeld && !(step && (s.word & kAskStop) && Count(s.word) == 0)) {
        if (!s.told_stood && StandsStill(s)) s.told_stood = s.stood = 1;
        s.mutex = 0;
        me.pc = kSleep;
      } else if (s.phase == kHeld) {
        me.pc = kEnterOrGive;
      } else if (s.phase == kNone) {
        s.phase = kAsked;
        s.wait_sent = 1;
      } else if (s.phase == kGranted) {
        s.phase = kTakingPhase;
        s.mutex = 0;
        me.pc = kTaking;
      } else {
        const bool may_read = s.phase == kAsked && !s.reading && !s.left_to_agent;
        if (may_read) s.reading = 1;
        s.mutex = 0;
        me.pc = may_read ? kToPoll : kSleep;
      }
      return Go(s);
    case kTaking: {
      if (s.mutex != 0) return;
      Word steps = 0;
      for (int i = 0; i < 2; ++i) {
        if (!s.threads[i].waits) continue;
        steps += config_.allocates[i] || s.threads[i].mid_step ? 0 : 1;
        s.threads[i].waits = 0;
        s.threads[i].admitted = 1;
      }
      s.phase = kHeld;
      s.word = t::Granted(s.word, steps);
      if (steps == 0) s.armed = 1;
      NotifyAll(s);
      go_in();
      return Go(s);
    }
    case kEnterOrGive:
      me.pc = MustGive(s.word, step) ? kTryGive : kEnter;
      return Go(s);
    case kEnter:
      if (step) s.word = t::Enter(s.word);
      go_in();
      return Go(s);
    case kTryGive:
      s.mutex = 0;
      if (const auto given = t::TryGive(s.word)) {
        s.word = *given;
        s.phase = kGivingPhase;
        me.pc = kGive;
      } else {
        me.pc = kSleep;
      }
      return Go(s);
    default:
      return;  // asleep
  }
}

// In the agent's place. A thread that comes to poll finds what came before.
void Search::Reading(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  switch (me.pc) {
    case kToPoll:
    case kPoll: {
      const bool ready = me.pc == kToPoll && s.inbox[0] != kNothing;
      if (!ready && !s.door_woken && me.pc == kPoll) return;  // asleep
      me.pc = ready || s.door_woken ? kPollWoken : kPoll;
      s.door_woken = 0;
      return Go(s);
    }
    case kPollWoken:
      if (s.receive_mutex != 0 || s.mutex != 0) return;
      s.receive_mutex = static_cast<std::uint8_t>(index + 1);
      s.reading = 0;
      me.pc = kReading;
      return Go(s);
    default:
      break;
  }
  if (s.inbox[0] == kNothing) {
    s.receive_mutex = 0;
    me.pc = kWoken;
    return Go(s);
  }
  if (s.mutex != 0) return;
  const MessageModel message = Take(s.inbox);
  const bool yield = message == kYieldIdle || message == kYieldStop;
  const bool unused = s.phase == kGranted || s.phase == kTakingPhase;
  const bool first = s.aside[0] == kNothing;
  if (message == kGrantMessage && s.aside[0] == kNothing) {
    Granted(s);
  } else if (yield && first && (unused || (config_.yield_obeyed_in_use && s.phase == kHeld))) {
    s.word |= message == kYieldStop ? kAskIdle | kAskStop : kAskIdle;
    ++result_.yields_at_door;
  } else {
    Put(s.aside, message);
    s.left_to_agent = s.agent_told = 1;
  }
  if (config_.reads_one_message) {
    s.receive_mutex = 0;
    me.pc = kWoken;
  }
  Go(s);
}

void Search::AtEnd(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  const auto end = [&](Word before) {
    const Duty duty = t::DutyAfter(before);
    s.word = t::End(before);
    --me.left;
    me.pc = duty == Duty::kNone ? kStart : duty == Duty::kMayGive ? kLockEndSlow : kLockTell;
    if (config_.end_not_told && me.pc == kLockTell) me.pc = kStart;
  };
  switch (me.pc) {
    case kInStep:
      if (config_.plain_accesses) {
        me.seen = s.word;
        me.pc = kEndStore;
      } else {
        end(s.word);
      }
      return Go(s);
    case kEndStore:
      end(std::exchange(me.seen, 0));
      return Go(s);
    case kLockTell:
      if (s.mutex != 0) return;
      s.armed = 1;
      s.look |= s.stands_by;
      me.pc = kStart;
      return Go(s);
    case kLockEndSlow:
      if (s.mutex != 0) return;
      if (s.phase != kHeld) {
        me.pc = kStart;
      } else if (s.word & kAskStop) {
        s.mutex = static_cast<std::uint8_t>(index + 1);
        me.pc = kEndTryGive;
      } else {
        s.armed = 1;
        me.pc = kStart;
      }
      return Go(s);
    default:  // kEndTryGive
      s.mutex = 0;
      if (const auto given = t::TryGive(s.word)) {
        s.word = *given;
        s.phase = kGivingPhase;
        me.pc = kGiveEnd;
      } else {
        s.armed = 1;
        me.pc = kStart;
      }
      return Go(s);
  }
}

// Drained: first the word, with the allocator locked; then, with the mutex, the end of the turn.
void Search::Passing(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  if (me.pc == kGive || me.pc == kGiveEnd || me.pc == kGiveRoom) {
    if (s.allocator != 0) return;
    CheckPassed(s);
    s.word = t::Passed(s.word);
    me.pc = me.pc == kGive ? kPassed : me.pc == kGiveEnd ? kPassedEnd : kPassedRoom;
    return Go(s);
  }
  if (s.mutex != 0) return;
  EndTurn(s);
  if (me.pc == kPassedRoom) {
    me.pc = kLockDoor;
  } else if (me.pc == kPassed) {
    s.mutex = static_cast<std::uint8_t>(index + 1);
    me.pc = kLoop;
  } else {
    me.pc = kStart;
  }
  Go(s);
}

// An allocation in a step stands in AskRoom(); its answer is "others first". Then it tries again, at first
// with the allocator locked. (It counts as standing for a moment longer than the product has it.)
void Search::LackingRoom(const State& state, int index) {
  State s = state;
  ThreadState& me = s.threads[index];
  if (s.mutex != 0 && me.pc == kLacksRoom) return;
  switch (me.pc) {
    case kInStep:
      --me.lacks;
      me.mid_step = 1;
      me.pc = kLacksRoom;
      return Go(s);
    case kLacksRoom:
      s.mutex = static_cast<std::uint8_t>(index + 1);
      me.pc = kRoomTryGive;
      return Go(s);
    case kRetry:
      if (s.allocator != 0) return;
      me.pc = t::HoldsTurn(config_.giving_goes_on ? s.word & ~kGiving : s.word) ? kInStep : kLockDoor;
      if (me.pc == kInStep) me.mid_step = 0;
      return Go(s);
    default:
      break;
  }
  s.mutex = 0;
  Word standing = 0;
  for (const ThreadState& thread : s.threads) standing += thread.mid_step;
  if (config_.all_stand) standing = Count(s.word);
  const auto given = s.phase == kHeld ? t::TryGive(s.word, standing) : std::nullopt;
  if (given) {
    s.word = *given;
    s.phase = kGivingPhase;
    me.pc = kGiveRoom;
  } else {
    me.pc = kRetry;
  }
  Go(s);
}

// --- the agent ------------------------------------------------------------------------------------

void Search::ExpandAgent(const State& state) {
  State s = state;
  switch (state.agent) {
    case kReceive:
      if (state.armed && state.mutex == 0) CheckIdle(state);
      if (state.look && state.mutex == 0) CheckStandBy(state);
      if (!s.agent_told || s.receive_mutex != 0) return;
      s.receive_mutex = 3;
      s.agent = kDrain;
      return Go(s);
    case kDrain:
      return Drain(state);
    case kAskStore:  // broken: the second half of Ask, mutex held
      s.word = std::exchange(s.agent_seen, 0);
      s.mutex = 0;
      s.agent = kDrain;
      return Go(s);
    case kIdleTake: {
      if (s.mutex != 0) return;
      s.agent = kReceive;
      const auto given = t::TryGive(s.word);
      if (s.phase == kHeld && given && Begins(s.word) == Begins(s.agent_seen)) {
        s.word = *given;
        s.phase = kGivingPhase;
        s.agent = kIdleGive;
      }
      s.agent_seen = 0;
      return Go(s);
    }
    case kIdleGive:
      if (s.allocator != 0) return;
      CheckPassed(s);
      s.word = t::Passed(s.word);
      s.agent = kIdlePassed;
      return Go(s);
    case kIdlePassed:
      if (s.mutex != 0) return;
      EndTurn(s);
      s.agent = kReceive;
      return Go(s);
    default:
      return;
  }
}

// What is set aside first, one message after the other, until nothing is there.
void Search::Drain(const State& state) {
  State s = state;
  if (s.agent_has != kNothing) {
    if (s.mutex != 0) return;
    const MessageModel message = std::exchange(s.agent_has, kNothing);
    return Obey(s, message);
  }
  if (s.aside[0] != kNothing) {
    if (s.mutex != 0) return;
    s.agent_has = Take(s.aside);
    if (s.aside[0] == kNothing) {
      s.left_to_agent = 0;
      NotifyAll(s);
    }
  } else if (s.inbox[0] != kNothing) {
    s.agent_has = Take(s.inbox);
  } else {
    s.agent_told = 0;
    s.receive_mutex = 0;
    s.agent = kReceive;
  }
  Go(s);
}

// REQUIRES: the mutex is free.
void Search::Obey(State s, MessageModel message) {
  if (message == kGrantMessage) {
    Granted(s);
    return Go(s);
  }
  if (s.phase < kGranted) return Go(s);
  if (message == kStandByMessage) {
    s.stands_by = s.look = 1;
    s.told_stood = 0;
    s.word |= kStandBy;
    return Go(s);
  }
  if (message == kGoOnMessage) {
    EndStandBy(s);
    return Go(s);
  }
  if (s.phase == kHeld && s.stands_by) NotifyAll(s);
  const Word asks = message == kYieldStop ? kAskIdle | kAskStop : kAskIdle;
  if (s.phase == kHeld) s.armed = 1;
  if (config_.plain_accesses) {
    s.mutex = 3;
    s.agent_seen = s.word | asks;
    s.agent = kAskStore;
  } else {
    s.word |= asks;
  }
  Go(s);
}

// Quiet for long enough, or not: both are tried. While a step lasts the check rests.
void Search::CheckIdle(const State& state) {
  State s = state;
  const bool may_give = s.phase == kHeld && !s.stands_by && (s.word & kAsks) != 0;
  if (!may_give || Count(s.word) > 0) {
    s.armed = 0;
    return Go(s);
  }
  if ((s.word & kAskStop) && !(s.word & kAskMalloc)) {
    State busy = s;
    busy.word |= kAskMalloc;
    Go(busy);
  }
  s.agent_seen = s.word;
  s.agent = kIdleTake;
  Go(s);
}

void Search::EndStandBy(State& s) {
  if (!s.stands_by) return;
  s.stands_by = s.told_stood = s.look = 0;
  s.word &= ~kStandBy;
  if (!config_.go_on_not_told) NotifyAll(s);
  if (s.phase == kHeld && Count(s.word) == 0) s.armed = 1;
}

bool Search::StandsStill(const State& s) const {
  Word standing = 0;
  for (const ThreadState& thread : s.threads) {
    const bool at_door = thread.pc == kSleep || thread.pc == kWoken || thread.pc == kLoop;
    standing += thread.mid_step && at_door;
  }
  return s.phase == kGranted || s.phase == kTakingPhase || standing == Count(s.word);
}

// In the product it looks again after a while where somebody does not stand yet; here the end of the step
// has to tell it.
void Search::CheckStandBy(const State& state) {
  State s = state;
  s.look = 0;
  if (s.stands_by && !s.told_stood && StandsStill(s)) s.told_stood = s.stood = 1;
  Go(s);
}

// --- the coordinator ------------------------------------------------------------------------------

void Search::ExpandCoordinator(const State& state) {
  if (state.wait_sent && !state.turn_out) {
    State s = state;
    s.wait_sent = 0;
    s.turn_out = 1;
    if (Say(s, kGrantMessage)) Go(s);
  }
  if (state.turn_out && state.yields_left > 0) {
    for (const MessageModel yield : {kYieldIdle, kYieldStop}) {
      State s = state;
      --s.yields_left;
      if (Say(s, yield)) Go(s);
    }
  }
  // It waits for an answer as long as it likes, and lets it go on with or without one.
  if (state.turn_out && !state.ordered && state.stand_bys_left > 0) {
    State s = state;
    --s.stand_bys_left;
    s.ordered = 1;
    s.stood = 0;
    if (Say(s, kStandByMessage)) Go(s);
  }
  if (state.turn_out && state.ordered) {
    State s = state;
    s.ordered = s.stood = 0;
    if (Say(s, kGoOnMessage)) Go(s);
  }
}

}  // namespace hocket::model
