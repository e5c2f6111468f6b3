// What training threads and the agent share: one atomic word a job.
//
//   63 .. 32   begins: how many steps were begun, modulo 2^32
//   23 .. 16   flags
//   15 ..  0   count: threads in a step, also while they stand at a door in the midst of it
//
//                 Granted                  Ask             TryGive (none but standing)
//   without turn ---------> has the turn -------> asked -----------------------> giving
//        ^                    |       ^                                          |   |
//        |                    | Begin | End                           AbortGive  |   | Passed
//        |                    v       |                         asked <----------+   |
//        |                  in step (count > 0)                                      |
//        +---------------------------------------------------------------------------+
//
// A step begins with one fetch_add and ends with one fetch_sub; what they return says whether anything else
// is to be done, so while nobody waits nothing else is done. All transitions are read-modify-writes of one
// atomic, so they stand in one order. That is why no wake-up is lost: an Ask either comes before the End of
// the last step, and then End returns it; or after, and then Ask returns count == 0. The same holds for a
// Begin that comes beside a TryGive: one of the two sees the other.
//
// Who stands by keeps the turn, and lets nobody go on who would use the device: kStandBy is one more reason
// for Begin to say no, and for an allocation to stand at its door, until it is cleared.
//
// Memory order. Granted and Passed publish what was done to memory (restored, adopted): release. Begin and
// HoldsTurn look at it: acquire. End publishes what the step did, TryGive looks at it. All of them are
// acq_rel here except the load: on x86 that costs nothing, elsewhere little.
//
// The transitions are pure functions (namespace transition), which tests/client/state_word_model_test.cc
// enumerates in all interleavings; StateWord applies each of them in one atomic operation.
#ifndef HOCKET_CSRC_CLIENT_STATE_WORD_H_
#define HOCKET_CSRC_CLIENT_STATE_WORD_H_

#include <atomic>
#include <cstdint>
#include <optional>

namespace hocket {

using Word = std::uint64_t;

inline constexpr Word kCountMask = 0xffff;
inline constexpr Word kHasTurn = Word{1} << 16;
inline constexpr Word kGiving = Word{1} << 17;     // somebody is handing the turn over
inline constexpr Word kAskIdle = Word{1} << 18;    // others wait: give the turn if you do not use it
inline constexpr Word kAskStop = Word{1} << 19;    // give it at the next boundary
inline constexpr Word kAskMalloc = Word{1} << 20;  // give it at the next allocation outside a step, too
inline constexpr Word kImplicit = Word{1} << 21;   // begun by an allocation, and no step since
inline constexpr Word kSlow = Word{1} << 22;       // look closer at every Begin (forced spills)
inline constexpr Word kStandBy = Word{1} << 23;    // keep the turn, and stand still: a request is served
inline constexpr Word kAsks = kAskIdle | kAskStop | kAskMalloc;
inline constexpr Word kOneBegin = (Word{1} << 32) + 1;

constexpr Word Count(Word word) { return word & kCountMask; }
constexpr std::uint32_t Begins(Word word) { return static_cast<std::uint32_t>(word >> 32); }

// What an End (or an UndoBegin) leaves to be done.
enum class Duty {
  kNone,
  kMayGive,    // the last step has ended and kAskStop is set: look whether to give the turn
  kTellAgent,  // the last step has ended, and the agent now waits for idleness, or until the device is done
};

namespace transition {

constexpr Word Begin(Word word) { return word + kOneBegin; }
// Of the word before Begin(): the step has begun. Otherwise UndoBegin() and stand at the door.
constexpr bool Begun(Word before) {
  return (before & (kHasTurn | kGiving | kAskStop | kImplicit | kSlow | kStandBy)) == kHasTurn;
}
constexpr Word End(Word word) { return word - 1; }
// Of the word before End().
constexpr Duty DutyAfter(Word before) {
  const bool last = Count(before) == 1 && (before & (kHasTurn | kGiving)) == kHasTurn;
  if (!last) return Duty::kNone;
  if (before & kAskStop) return Duty::kMayGive;
  return before & (kAskIdle | kStandBy) ? Duty::kTellAgent : Duty::kNone;
}
// An allocation may go on. Not while the turn is being given: who is at a door in the midst of a step counts
// as standing until it has asked this.
constexpr bool HoldsTurn(Word word) {
  return (word & (kHasTurn | kGiving | kStandBy)) == kHasTurn &&
         ((word & kAskMalloc) == 0 || Count(word) > 0);
}
// None: there is no turn to give, or somebody else gives it, or a thread is in a step, other than `standing`
// ones that stand at doors in the midst of theirs.
constexpr std::optional<Word> TryGive(Word word, Word standing = 0) {
  const bool can = (word & (kHasTurn | kGiving)) == kHasTurn && Count(word) == standing;
  return can ? std::optional<Word>(word | kGiving) : std::nullopt;
}
constexpr Word AbortGive(Word word) { return word & ~(kGiving | kAskMalloc); }
constexpr Word Passed(Word word) { return word & ~(kHasTurn | kGiving | kImplicit | kAsks | kStandBy); }
// `steps` threads that stood at the door are in a step from now on, beside those that were in one already.
constexpr Word Granted(Word word, Word steps) {
  return (word | kHasTurn | (steps + Count(word) == 0 ? kImplicit : 0)) + steps * kOneBegin;
}
// A thread that stood at the door enters while the process has the turn.
constexpr Word Enter(Word word) { return (word & ~kImplicit) + kOneBegin; }

}  // namespace transition

class StateWord {
 public:
  // True: the step has begun. False: nothing has changed but what UndoBegin() takes back; call it.
  bool Begin() { return transition::Begun(word_.fetch_add(kOneBegin, std::memory_order_acq_rel)); }
  Duty UndoBegin() { return End(); }
  Duty End() { return transition::DutyAfter(word_.fetch_sub(1, std::memory_order_acq_rel)); }

  bool HoldsTurn() const { return transition::HoldsTurn(Load()); }
  Word Load() const { return word_.load(std::memory_order_acquire); }

  // Sets or clears flags and returns the word before.
  Word Ask(Word asks) { return word_.fetch_or(asks, std::memory_order_acq_rel); }
  Word Unask(Word asks) { return word_.fetch_and(~asks, std::memory_order_acq_rel); }

  bool TryGive(Word standing = 0) {
    return Try([standing](Word word) { return transition::TryGive(word, standing); });
  }
  // As TryGive(), but only if no step was begun since the word had `begins`: of a job that idles, outside
  // steps or in the midst of `in_steps`.
  bool TryTakeIdle(std::uint32_t begins, Word in_steps = 0);
  // Gives also while threads are in a step: the job leaves.
  void ForceGive() { word_.fetch_or(kGiving, std::memory_order_acq_rel); }
  void AbortGive() { Apply(transition::AbortGive); }
  // The word before, whose asks the caller may want to keep.
  Word Passed() { return Apply(transition::Passed); }
  void Granted(Word steps) {
    Apply([steps](Word word) { return transition::Granted(word, steps); });
  }
  // REQUIRES: the turn is ours and nobody gives it.
  void Enter() { Apply(transition::Enter); }

  // For good: the job has left, or this is a forked child with `count` threads in a step. Nothing asks any
  // more.
  void BecomeOutside(Word count) { word_.store(kHasTurn + count, std::memory_order_release); }
  void BecomeOutside() {
    Apply([](Word word) { return (word & ~(kGiving | kImplicit | kSlow | kAsks | kStandBy)) | kHasTurn; });
  }

 private:
  template <typename Function>
  Word Apply(Function f) {
    Word word = word_.load(std::memory_order_relaxed);
    while (
        !word_.compare_exchange_weak(word, f(word), std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    return word;
  }
  template <typename Function>
  bool Try(Function f) {
    Word word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const std::optional<Word> next = f(word);
      if (!next) return false;
      if (word_.compare_exchange_weak(word, *next, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  std::atomic<Word> word_{0};
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_STATE_WORD_H_
