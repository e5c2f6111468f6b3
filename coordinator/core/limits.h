// The times the core works with. None of them is a guess about how fast a GPU is; that is measured.
#ifndef HOCKET_COORDINATOR_CORE_LIMITS_H_
#define HOCKET_COORDINATOR_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace hocket::coordinator {

// A job that does not answer for so long is left aside until it does: it has not taken up a Grant while
// others wait, or not answered a Spill (which may take as long again for each GiB asked for).
inline constexpr absl::Duration kAnswerLimit = absl::Seconds(1);
// A turn that was passed on by its last holder is granted all the same after so long, or twice that: before
// it could be taken back.
inline constexpr absl::Duration kSayGrantAfter = absl::Milliseconds(250);
// After a restart nothing is granted for so long, or until every job expected has reported.
inline constexpr absl::Duration kRejoinWindow = absl::Seconds(1);
// So long a dead job's memory may take to come back before we stop waiting for it.
inline constexpr absl::Duration kDeadMemoryLimit = absl::Seconds(10);
// So long the process of a job that has left may take to end before its memory counts as kept.
inline constexpr absl::Duration kLeaverLimit = absl::Seconds(10);
// So long jobs may take to unmap an arena chunk that has left the arena.
inline constexpr absl::Duration kArenaDropLimit = absl::Seconds(1);

// So many ArenaAdds may be on their way to a job: each is a descriptor of the 1,024 that a process may have,
// as a rule. Fewer would not do: what others make at once should be known by the next turn (0040).
inline constexpr std::uint64_t kMostUnheard = 256;
// A lane's arena has at most so many chunks, by the device's capacity (arena.cc): who names more makes us
// remember them for ever.
inline constexpr std::size_t kLeastChunks = 4096;
inline constexpr std::size_t kMostChunks = std::size_t{1} << 20;
// Who waits for memory that is on its way back tries again after so long.
inline constexpr absl::Duration kReturningRetry = absl::Milliseconds(20);
// So long it does so when the driver seems to have it back already.
inline constexpr absl::Duration kReturnedRetry = absl::Milliseconds(100);
// A job that stands at its doors and still cannot spill (its device is busy, its host memory is used up) is
// asked again for so long before somebody else is told that there is no room.
inline constexpr absl::Duration kCannotSpillLimit = absl::Seconds(1);
// Who waits for others to become movable tries again after so long: the ledger does not see everything.
inline constexpr absl::Duration kRoomRetry = absl::Milliseconds(100);
// A rank that stopped where its gang should, while another rank has not come there for so long, goes on:
// their counts of steps were not aligned.
inline constexpr absl::Duration kRealignAfter = absl::Seconds(1);
// A gang begins with those of its ranks that are there when no other has come for so long.
inline constexpr absl::Duration kGangPatience = absl::Seconds(10);
// Processes that wait for each other's devices for so long in their steps do so for ever.
inline constexpr absl::Duration kTiedFor = absl::Seconds(1);
// A job that others wait for gives its turn up when it has not used it for so long between two steps (what
// csrc/client does by itself: ClientTuning::idle_limit).
inline constexpr absl::Duration kIdleLimit = absl::Milliseconds(5);
// So long, or for half of its usual step where that is shorter, a holder is not asked whether it idles.
inline constexpr absl::Duration kHolderBegins = absl::Milliseconds(1);
// What was in use on a device besides what the ledger knows is reckoned with at grants for so long. Who asks
// for room says what the driver says; whoever had it before he asked does not. So what other programs have
// given back is found out after that.
inline constexpr absl::Duration kUnseenGoodFor = absl::Seconds(10);
// More than this is not believed of messages on their way (JobView::last_passage).
inline constexpr absl::Duration kLongestPassage = absl::Milliseconds(10);
// No turn is kept longer than this for the sake of few hand-overs.
inline constexpr absl::Duration kMaxQuantum = absl::Seconds(60);
// A device is kept free no longer than this for a job that may be back soon.
inline constexpr absl::Duration kMaxKeepFree = absl::Seconds(60);
// A place in a turn is kept for so long after a usual gap: the question is under way.
inline constexpr absl::Duration kWaitUnderWay = absl::Microseconds(100);
// A gap between two turns counts as no longer than this in the estimate: afterwards a usual one is soon
// believed.
inline constexpr absl::Duration kLongestGap = absl::Seconds(1);
// A holder that was asked to stop, and has not for so long (or for ten of its steps, where that is longer)
// while others wait, is named.
inline constexpr absl::Duration kHolderLimit = absl::Seconds(5);
// So long jobs keep the lanes that they have had beside each other, and the lanes their arenas: whoever runs
// beside others soon runs again beside them.
inline constexpr absl::Duration kLanesKept = absl::Seconds(10);
// A job that joins again names its lane by the lock's path; lanes are tried up to this one.
inline constexpr int kMostLanes = 64;
// How jobs get on beside each other is looked at when each should have done so many steps,
inline constexpr int kStepsLooked = 4;
// no sooner than this,
inline constexpr absl::Duration kLeastLook = absl::Milliseconds(100);
// and no later, however slow they have become.
inline constexpr absl::Duration kMostLook = absl::Seconds(10);
// What a job's step takes alone is believed for so long.
inline constexpr absl::Duration kAloneGoodFor = absl::Minutes(5);
// A guest that finds no room, and cannot stand aside where it is, is served as a holder after so many times.
inline constexpr int kMostAsides = 3;
// Who is to stand by for a request, and has not for so long, is not waited for: the request goes on beside
// it. And who has stood by for so long does not any longer: it goes on beside the request.
inline constexpr absl::Duration kMostStandBy = absl::Seconds(1);
// Of work that a job may have queued on a device where another serves: a request waits for it. Less, and the
// device would run dry before the job has woken.
inline constexpr absl::Duration kMostQueued = absl::Milliseconds(3);
// Who has found no room, and waits until others have given some back, tries again after so long though the
// ledger knows of none: it does not know everything. Longer each time,
inline constexpr absl::Duration kLeastLackPause = absl::Seconds(1);
// up to this.
inline constexpr absl::Duration kMostLackPause = absl::Minutes(1);
// So often a job whose bytes do not fit now lets others go first before it gets the turn and waits in it.
inline constexpr int kMaxPassedOver = 3;

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_LIMITS_H_
