// What a job with a time cap has had of its device, and when it may go on.
//
// Credit flows in at the cap's rate, up to a ceiling, and device time flows out:
//
//     Use()                              credit
//     runs:  - (1 - cap) a second        |      ......  ceiling
//     rests: + cap a second              |   /\      /
//                                        |--/--\----/-- resumes
//                                        | /    \  /
//                                        +-------\/---- 0: its turn ends after the step it is in
//                                                       below: the rest of that step, which it pays for
//
// So in any window a job has at most cap x window + ceiling + (1 - cap) x one of its steps. The ceiling is
// chosen (LevelsFor) so that the last two are one point of 10 s (100 ms), or the longest step on the device
// where that is longer: then it can make up for what it missed while it waited for a step of another's. What
// the ceiling has above that is used in several steps at a time. A step longer than the cap allows in 10 s is
// paid for all the same: nothing is forgotten.
//
// A plain value; it reads no clock. Times never go backwards.
#ifndef HOCKET_COORDINATOR_CORE_TIME_ACCOUNT_H_
#define HOCKET_COORDINATOR_CORE_TIME_ACCOUNT_H_

#include "absl/time/time.h"
#include "coordinator/core/recent_use.h"

namespace hocket::coordinator {

class TimeAccount {
 public:
  static constexpr absl::Duration kWindow = RecentUse::kWindow;
  static constexpr absl::Duration kTolerance = absl::Milliseconds(100);  // one point of the window

  // Opened at `now`; `credit` is what an account before this one had left then. REQUIRES: 0 < cap <= 1
  TimeAccount(double cap, absl::Time now, absl::Duration credit = absl::ZeroDuration());

  struct Levels {
    absl::Duration ceiling;
    absl::Duration resume;  // who has used up its credit may go on from here
  };
  // For a job whose steps take at most `step` (zero: not known yet), where the longest on its device, its own
  // included, take `longest`.
  static Levels LevelsFor(double cap, absl::Duration step, absl::Duration longest);

  double cap() const { return cap_; }
  absl::Time as_of() const { return as_of_; }
  absl::Duration credit() const { return credit_; }  // then

  // From `now` on. What it has had before counts as it did: call Use() first.
  void SetCap(double cap, absl::Time now);

  // It has had the device from `from` until `to`; what lies before the last call is not counted again.
  void Use(absl::Time from, absl::Time to, Levels levels);

  // From when on it may have a turn; a time that has passed: at once.
  absl::Time MayRunAt() const;

  // What it has had is not made up for yet.
  bool Owes(absl::Time now) const { return now < MayRunAt() || CreditAt(now) < absl::ZeroDuration(); }

  // When the credit is used up if it has the device from `from` on.
  absl::Time EmptyAt(absl::Time from) const;

  // The kWindow before `now`, or the time since the account was opened, where that is less.
  absl::Duration Window(absl::Time now) const { return recent_.Window(now); }

  // Its share of the device in that time; what it has had since `running` (infinite future: nothing) and has
  // not been counted by Use() included.
  double ShareOfWindow(absl::Time now, absl::Time running) const {
    return recent_.Share(now, std::max(running, as_of_));
  }

 private:
  absl::Duration CreditAt(absl::Time at) const;
  void Advance(absl::Time to);

  double cap_;
  absl::Time as_of_;
  absl::Duration credit_;
  Levels levels_;
  bool exhausted_ = false;
  RecentUse recent_;  // before as_of_
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_TIME_ACCOUNT_H_
