#include "allocator/queued_work.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"

namespace hocket {
namespace {

constexpr int kMarksInLimit = 4;
constexpr int kUnknownInLimit = 8;
constexpr int kSpareInLimit = 8;  // may always be queued before what comes next
constexpr int kDoubtful = 8;      // times until what has been no less is believed

}  // namespace

void QueuedWork::Work::Learn(Nanos measured, bool waited) {
  no_less = work && measured >= *work * 4 / 5;
  exact |= !waited;
  if (!work || measured <= *work) {
    work = measured;
    doubtful = 0;
  } else if (!waited) {
    work = (*work + measured) / 2;
    doubtful = 0;
  } else {
    least = doubtful == 0 ? measured - host : std::min(least, measured - host);
    if (++doubtful < kDoubtful) return;
    work = std::max(*work, least);
    doubtful = 0;
  }
}

void QueuedWork::BeginStep() {
  if (now_.empty()) return;
  before_ = std::exchange(now_, {});
  work_before_ = std::exchange(work_now_, {});
  now_.reserve(before_.size());
  work_now_.reserve(before_.size());
  longest_before_ = std::exchange(longest_now_, Nanos{0});
  alignment_.Restart();
}

QueuedWork::WorkPtr QueuedWork::Foresee(Bytes size, Stream stream) {
  const Alignment::Match match = alignment_.Next(before_, size, stream);
  WorkPtr work = match.found && match.sure ? work_before_[match.index] : std::make_shared<Work>();
  if (now_.size() < kLongestStep) {
    now_.push_back({.size = size, .stream = stream});
    work_now_.push_back(work);
  }
  return work;
}

QueuedWork::Nanos QueuedWork::Foreseen(const Work& work) const {
  return work.work.value_or(limit_ / kUnknownInLimit);
}

bool QueuedWork::Allocates(Bytes size, Stream stream, Nanos now) {
  if (next_ != nullptr) {
    next_->host = now - went_on_;
    stretch_foreseen_ += Foreseen(*next_);
    stretch_unknown_ |= !next_->work;
    stretch_.push_back(std::move(next_));
  }
  next_ = Foresee(size, stream);
  longest_now_ = std::max(longest_now_, next_->AtLeast());
  return !begun_ || stretch_unknown_ || !next_->work || stretch_.size() >= kLongest ||
         stretch_foreseen_ + Foreseen(*next_) > limit_ / kMarksInLimit;
}

void QueuedWork::Marked(bool device_waited, Nanos now) {
  unpassed_ += stretch_.size();
  marks_foreseen_ += stretch_foreseen_;
  marks_.push_back({.stretch = std::exchange(stretch_, {}),
                    .foreseen = std::exchange(stretch_foreseen_, Nanos{0}),
                    .placed = now,
                    .waited = device_waited,
                    .first = !std::exchange(begun_, true)});
  marks_.back().by_clock = GoesByClock(marks_.back());
  stretch_unknown_ = false;
  ++marked_;
}

QueuedWork::Nanos QueuedWork::Queued() const {
  return marks_foreseen_ + stretch_foreseen_ + (next_ == nullptr ? Nanos{0} : Foreseen(*next_));
}

QueuedWork::Nanos QueuedWork::Room() const {
  const Nanos next = next_ == nullptr ? Nanos{0} : Foreseen(*next_);
  const Nanos room = std::max(limit_ - next, limit_ / kSpareInLimit);
  if (next_ == nullptr) return room;
  const Nanos longest = std::max(longest_now_, longest_before_);
  return std::max(room, std::min(next_->host, longest - next_->AtLeast()));
}

bool QueuedWork::GoesByClock(const Mark& mark) const {
  const Nanos much = limit_ / kMarksInLimit;
  return !mark.first && mark.foreseen > much &&
         std::all_of(mark.stretch.begin(), mark.stretch.end(),
                     [&](const WorkPtr& work) { return work->no_less || Foreseen(*work) <= much / 4; });
}

QueuedWork::MarkNumber QueuedWork::MustPass() const {
  const Nanos room = Room();
  Nanos before = marks_foreseen_ + stretch_foreseen_;
  MarkNumber must = passed();
  for (const Mark& mark : marks_) {
    const bool too_many = marked_ - must > kMostMarks;
    if (before <= room && !too_many) break;
    if (before - mark.foreseen <= room && !too_many && mark.by_clock) break;  // a part of it is enough
    before -= mark.foreseen;
    ++must;
  }
  return must == passed() ? 0 : must;
}

std::optional<QueuedWork::Nanos> QueuedWork::MustAwait() const {
  const Nanos too_much = marks_foreseen_ + stretch_foreseen_ - Room();
  if (too_much <= Nanos{0} || marks_.empty() || !marks_.front().by_clock) return std::nullopt;
  const Nanos runs_since = std::max(newest_passed_, marks_.front().placed);
  return runs_since + std::min(too_much, marks_.front().foreseen);
}

void QueuedWork::Passed(Nanos elapsed, Nanos now) {
  HOCKET_CHECK(!marks_.empty()) << "the device passed a mark that nobody placed";
  const Mark mark = std::move(marks_.front());
  marks_.pop_front();
  unpassed_ -= mark.stretch.size();
  marks_foreseen_ -= mark.foreseen;
  newest_passed_ = now;
  if (!mark.first) Learn(mark, elapsed);
}

void QueuedWork::Learn(const Mark& mark, Nanos elapsed) {
  Nanos known{0};
  int unknown = 0;
  for (const WorkPtr& work : mark.stretch) {
    known += work->work.value_or(Nanos{0});
    unknown += work->work ? 0 : 1;
  }
  const Nanos for_unknown = std::max(elapsed - known, Nanos{0});
  const bool scaled = elapsed < known || unknown == 0;
  const auto count = static_cast<std::int64_t>(mark.stretch.size());
  for (const WorkPtr& work : mark.stretch) {
    if (!work->work) {
      work->Learn(for_unknown / unknown, mark.waited);
    } else if (scaled && known > Nanos{0}) {
      const double share = static_cast<double>(work->work->count()) / static_cast<double>(known.count());
      const double part = share * static_cast<double>(elapsed.count());
      work->Learn(Nanos(static_cast<std::int64_t>(part)), mark.waited);
    } else if (scaled) {
      work->Learn(elapsed / count, mark.waited);
    }
  }
}

void QueuedWork::Forget() {
  marks_.clear();
  unpassed_ = 0;
  marks_foreseen_ = Nanos{0};
  stretch_.clear();
  stretch_foreseen_ = Nanos{0};
  stretch_unknown_ = false;
  next_ = nullptr;
  begun_ = false;
}

}  // namespace hocket
