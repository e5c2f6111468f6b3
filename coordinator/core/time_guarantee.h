// What a device owes those to whom a share of its time is guaranteed.
//
// Of all time in which the device works while others wait, the share flows in, and what the guaranteed jobs
// have had of it flows out:
//
//                        owed
//     others have it:  + share a second        |     ......  at most
//     it has it:       - (1 - share) a second  |  /\      /\        .
//                                              | /  \    /  \      /  > 0: its turn comes before all policies
//                                              0 ----\--/----\----/-----
//                                              |      \/      \../   the rest of its step: it pays for that
//                                              |                     at least
//
// So where the guarantees of a device add up to no more than 1, whoever wants its share gets it, off by about
// one turn, and what others do not want is anybody's. Time in which nobody else waited has been taken from
// nobody: it is not counted. Between the bounds all is remembered; they are so wide that one turn, of
// anybody, fits in. Who has been away is owed no more than that, and who has had more than its share because
// the policy gave it that pays for one turn of it at most.
//
// A plain value; it reads no clock. Times never go backwards.
#ifndef HOCKET_COORDINATOR_CORE_TIME_GUARANTEE_H_
#define HOCKET_COORDINATOR_CORE_TIME_GUARANTEE_H_

#include "absl/time/time.h"
#include "coordinator/core/recent_use.h"

namespace hocket::coordinator {

class TimeGuarantee {
 public:
  static constexpr absl::Duration kLeastTurn = absl::Milliseconds(100);  // one point of the window

  // REQUIRES: 0 < share <= 1
  TimeGuarantee(double share, absl::Time now);

  double share() const { return share_; }
  void SetShare(double share);

  struct Turns {  // the longest that there are, or that are to be reckoned with
    absl::Duration own;
    absl::Duration others;
  };
  // The device has worked from `from` until `to`, for who is guaranteed (`own`) or for somebody else; what
  // lies before it was opened is not counted. `contended`: somebody else waited meanwhile.
  void Count(absl::Time from, absl::Time to, bool own, bool contended, Turns turns);

  // What it is owed when the device has worked for `time` more. Negative: it has had more than its share.
  absl::Duration OwedAfter(absl::Duration time, bool own) const;

  const RecentUse& recent() const { return recent_; }

 private:
  double share_;
  absl::Time opened_;
  absl::Duration owed_;
  absl::Duration most_, least_;
  RecentUse recent_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_TIME_GUARANTEE_H_
