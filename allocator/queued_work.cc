#include "allocator/queued_work.h"

#include <algorithm>
#include <utility>

#include "csrc/base/check.h"

namespace hocket {
namespace {

constexpr int kMarksInLimit = 4;
constexpr int kUnknownInLimit = 8;
constexpr int kDoubtful = 8;  // times until what has been no less is believed

}  // namespace

void QueuedWork::Work::Learn(Nanos measured, bool waited) {
  if (!work || measured <= *work) {
    work = measured;
    doubtful = 0;
  } else if (!waited) {
    work = (*work + measured) / 2;
    doubtful = 0;
  } else {
    least = doubtful == 0 ? measured : std::min(least, measured);
    if (++doubtful < kDoubtful) return;
    work = least;
    doubtful = 0;
  }
}

void QueuedWork::BeginStep() {
  if (now_.empty()) return;
  before_ = std::exchange(now_, {});
  work_before_ = std::exchange(work_now_, {});
  now_.reserve(before_.size());
  work_now_.reserve(before_.size());
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

bool QueuedWork::Allocates(Bytes size, Stream stream) {
  if (next_ != nullptr) {
    stretch_foreseen_ += Foreseen(*next_);
    stretch_unknown_ |= !next_->work;
    stretch_.push_back(std::move(next_));
  }
  next_ = Foresee(size, stream);
  return !begun_ || stretch_unknown_ || !next_->work || stretch_.size() >= kLongest ||
         stretch_foreseen_ + Foreseen(*next_) > limit_ / kMarksInLimit;
}

void QueuedWork::Marked(bool device_waited) {
  unpassed_ += stretch_.size();
  marks_foreseen_ += stretch_foreseen_;
  marks_.push_back({.stretch = std::exchange(stretch_, {}),
                    .foreseen = std::exchange(stretch_foreseen_, Nanos{0}),
                    .waited = device_waited,
                    .first = !std::exchange(begun_, true)});
  stretch_unknown_ = false;
  ++marked_;
}

QueuedWork::Nanos QueuedWork::Queued() const {
  return marks_foreseen_ + stretch_foreseen_ + (next_ == nullptr ? Nanos{0} : Foreseen(*next_));
}

QueuedWork::MarkNumber QueuedWork::MustPass() const {
  Nanos queued = Queued();
  MarkNumber must = passed();
  for (const Mark& mark : marks_) {
    const bool too_many = marked_ - must > kMostMarks;
    if (queued <= limit_ && !too_many) break;
    queued -= mark.foreseen;
    ++must;
  }
  return must == passed() ? 0 : must;
}

void QueuedWork::Passed(Nanos elapsed) {
  HOCKET_CHECK(!marks_.empty()) << "the device passed a mark that nobody placed";
  const Mark mark = std::move(marks_.front());
  marks_.pop_front();
  unpassed_ -= mark.stretch.size();
  marks_foreseen_ -= mark.foreseen;
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
