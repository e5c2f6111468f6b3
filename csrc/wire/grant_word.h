// Whose is a Grant that its job has not read yet? One word, at the end of the job's shared page, says it.
//
// A Grant lies in the job's socket until the job reads it. If the job is stopped before that (a signal, a
// debugger), the coordinator wants to give the turn to somebody else, and must be sure that the job does not
// obey the Grant when it goes on. So both decide in one place, and whoever is first has decided:
//
//                       Accept k (the job, when it reads the Grant)
//   below 2k: open ---------------------------------------------------> 2k      the turn is the job's
//             |         TakeBack k (the coordinator)
//             +-------------------------------------------------------> 2k + 1  the Grant is void
//
// k is the number of the job's Wait that the Grant answers (wire::Wait::number). The job counts its Waits
// from 1, gives each a number of its own, also those that it repeats, and makes the page itself. So the word
// only grows, a late or repeated try for an older Grant changes nothing, and no restart of the coordinator
// makes a number come twice.
//
// A job of an older version numbers no Wait: k is 0, and neither side ever succeeds in deciding about it. A
// coordinator of an older version never writes the word, so every Accept succeeds.
//
// The order of all else follows the messages; the word orders nothing but itself.
#ifndef HOCKET_CSRC_WIRE_GRANT_WORD_H_
#define HOCKET_CSRC_WIRE_GRANT_WORD_H_

#include <atomic>
#include <cstdint>
#include <optional>

namespace hocket::wire {

namespace transition {

// The word afterwards; none: it has been decided already (for `wait`, or for a later one), or `wait` is 0.
constexpr std::optional<std::uint64_t> Accept(std::uint64_t word, std::uint64_t wait) {
  return word < 2 * wait ? std::optional(2 * wait) : std::nullopt;
}
constexpr std::optional<std::uint64_t> TakeBack(std::uint64_t word, std::uint64_t wait) {
  return word < 2 * wait ? std::optional(2 * wait + 1) : std::nullopt;
}

}  // namespace transition

// Each in one atomic operation; true: it was first. Lock-free, so it works between processes.
template <typename Transition>
bool Decide(std::atomic<std::uint64_t>& word, std::uint64_t wait, Transition transition) {
  std::uint64_t now = word.load(std::memory_order_relaxed);
  for (;;) {
    const std::optional<std::uint64_t> next = transition(now, wait);
    if (!next) return false;
    if (word.compare_exchange_weak(now, *next, std::memory_order_relaxed)) return true;
  }
}
inline bool AcceptGrant(std::atomic<std::uint64_t>& word, std::uint64_t wait) {
  return Decide(word, wait, transition::Accept);
}
inline bool TakeGrantBack(std::atomic<std::uint64_t>& word, std::uint64_t wait) {
  return Decide(word, wait, transition::TakeBack);
}

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_GRANT_WORD_H_
