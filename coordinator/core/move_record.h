// How a job's moves, to the host or back, were foretold, and what they came to.
//
// A move is an order to spill, an order to restore ahead of a turn, or what comes back at the begin of a
// turn. Foretold are the bytes of the device that are to change hands, and the time that they take at the
// rate that the link has shown; none, as long as it has shown none. How far that was off is said as a share
// of what it came to, the differences of all moves added up, so that a large move counts for more than a
// small one.
#ifndef HOCKET_COORDINATOR_CORE_MOVE_RECORD_H_
#define HOCKET_COORDINATOR_CORE_MOVE_RECORD_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

struct Foretold {
  Bytes bytes = 0;
  std::optional<absl::Duration> time;  // none: not known, or it cannot be compared
};

struct Moved {
  Bytes bytes = 0;   // of the device, in whole chunks
  Bytes copied = 0;  // of these over the link: the live ones that the host had not
  absl::Duration time;
};

// A plain value; it reads no clock.
class MoveRecord {
 public:
  // A move that has brought nothing says nothing of time.
  void Add(Foretold foretold, const Moved& moved);

  std::uint64_t moves() const { return moves_; }
  const Moved& moved() const { return moved_; }  // in all
  Bytes foretold_bytes() const { return foretold_bytes_; }
  // As a share of the bytes moved; none: nothing has been.
  std::optional<double> BytesError() const;

  // Of those whose time was foretold.
  std::uint64_t timed() const { return timed_; }
  absl::Duration timed_time() const { return timed_time_; }
  absl::Duration foretold_time() const { return foretold_time_; }
  // As a share of the time that they took; none: there are none.
  std::optional<double> TimeError() const;

  // The last one; none yet where moves() is 0.
  const Foretold& last_foretold() const { return last_foretold_; }
  const Moved& last_moved() const { return last_moved_; }

 private:
  std::uint64_t moves_ = 0;
  Moved moved_;
  Bytes foretold_bytes_ = 0;
  Bytes bytes_off_ = 0;
  std::uint64_t timed_ = 0;
  absl::Duration timed_time_;
  absl::Duration foretold_time_;
  absl::Duration time_off_;
  Foretold last_foretold_;
  Moved last_moved_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_MOVE_RECORD_H_
