// What a job lacks on a full device, and whether it can come: sums over what the ledger knows, nothing else.
//
//   free | coming back | what others give now | what they give back when they end | what stays
//   <------------- Now() -------------------->                                    |
//   <------------------------ Later() ------------------------------------------->|
//
// Who wants no more than Now() is served. Up to Later() it waits. Beyond that nobody can help it.
#ifndef HOCKET_COORDINATOR_CORE_LACK_H_
#define HOCKET_COORDINATOR_CORE_LACK_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

// Somebody else who has bytes on the device.
struct Holder {
  std::uint64_t job = 0;
  Bytes resident = 0;
  Bytes gives = 0;  // of these, that can be moved now: it stands at its doors, its host memory has room
  bool comes_back = false;  // all of it when it ends, and it can go on until then
};

enum class Outlook { kNow, kLater, kNever };

struct RoomSum {
  Bytes wanted = 0;
  Bytes free = 0;
  Bytes returning = 0;  // nobody's any more, on its way to the driver
  std::vector<Holder> others;

  Bytes Now() const;
  Bytes Later() const;
  Outlook outlook() const;
};

// What a program needed in its earlier runs, at most.
struct KnownNeed {
  Bytes persistent = 0;
  Bytes transient = 0;
  Bytes host = 0;  // what its host memory took of it
  std::uint64_t runs = 0;
};

// A job that found no room for `bytes`, and lets others go first until they have given some back.
struct Shortage {
  Bytes bytes = 0;
  absl::Time since;              // it lacks room: the first of several times in a row
  absl::Time retry_at;           // what the ledger does not know may have changed by then
  absl::Duration pause;          // until then; longer each time
  std::uint64_t departures = 0;  // of the device, when it found none, and
  Bytes free = 0;                // what the ledger said was free then
  bool refuse = false;           // its next question is answered with no: others could not go on otherwise
};

// Another vain try at `now`.
void TriedInVain(Shortage& shortage, Bytes bytes, std::uint64_t departures, absl::Time now);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_LACK_H_
