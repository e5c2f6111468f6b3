#include "coordinator/recording/block.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

namespace hocket::coordinator {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr size_t kUsualTurn = 64;  // bytes of its fields, at most

enum Kind : std::uint64_t { kText = 1, kWho = 2, kTurn = 3, kJob = 4, kLost = 5, kSpill = 6 };

// What a turn's flags say.
constexpr std::uint64_t kDied = 1, kMoved = 2;

// --- writing --------------------------------------------------------------------------------------

void Put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void PutSigned(std::string& out, std::int64_t value) {
  Put(out, (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

void PutDifference(std::string& out, std::int64_t a, std::int64_t b) {
  PutSigned(out, static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)));
}

void PutText(std::string& out, std::string_view text) {
  Put(out, text.size());
  out.append(text);
}

void PutTime(std::string& out, absl::Duration time) { PutSigned(out, absl::ToInt64Nanoseconds(time)); }

void PutRecord(std::string& out, Kind kind, std::string_view fields) {
  Put(out, kind);
  PutText(out, fields);
}

// FNV-1a.
std::uint32_t CheckOf(std::string_view bytes) {
  std::uint32_t hash = 0x811c9dc5;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return hash;
}

void Put32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint32_t Get32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i)
    value = (value << 8) | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  return value;
}

bool IsOfNumber(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// "least device time for its weight (0.21)" -> "least device time for its weight (\1)" and "0.21\0".
std::pair<std::string, std::string> WithoutNumbers(std::string_view text) {
  std::string form, numbers;
  for (size_t at = 0; at < text.size();) {
    if (text[at] < '0' || text[at] > '9') {
      form.push_back(text[at++] == '\1' ? ' ' : text[at - 1]);
      continue;
    }
    size_t end = at;
    while (end < text.size() && IsOfNumber(text[end])) ++end;
    form.push_back('\1');
    numbers.append(text.substr(at, end - at)).push_back('\0');
    at = end;
  }
  return {std::move(form), std::move(numbers)};
}

std::string WithNumbers(std::string_view form, std::string_view numbers) {
  std::string text;
  for (const char c : form) {
    if (c != '\1') {
      text.push_back(c);
      continue;
    }
    const size_t end = std::min(numbers.find('\0'), numbers.size());
    text.append(numbers.substr(0, end));
    numbers.remove_prefix(std::min(numbers.size(), end + 1));
  }
  return text;
}

// --- reading --------------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool good() const { return good_; }
  bool at_end() const { return left_.empty() || !good_; }

  std::uint64_t Number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) break;
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }
  std::int64_t Signed() {
    const std::uint64_t value = Number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  absl::Duration Time() { return absl::Nanoseconds(Signed()); }
  std::string_view Text() {
    const std::uint64_t size = Number();
    good_ &= size <= left_.size();
    if (!good_) return "";
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view left_;
  bool good_ = true;
};

// One block's records.
class BlockReader {
 public:
  BlockReader(std::string_view body, BlockVisitor& visitor) : in_(body), visitor_(visitor) {}

  bool Read() {
    const std::uint64_t version = in_.Number();
    epoch_ = in_.Number();
    wall_ = in_.Time();
    if (version != kVersion) return false;
    while (!in_.at_end()) {
      const std::uint64_t kind = in_.Number();
      Reader fields(in_.Text());
      if (!in_.good() || !Record(kind, fields)) return false;
    }
    return in_.good();
  }

 private:
  bool Record(std::uint64_t kind, Reader& fields) {
    if (kind == kText) texts_.emplace_back(fields.Text());
    if (kind == kWho) Who(fields);
    if (kind == kTurn) return Turn(fields);
    if (kind == kSpill) return Spill(fields);
    if (kind == kJob) {
      const std::string_view text = fields.Text();
      if (fields.good()) visitor_.OnJob(epoch_, text, wall_);
    }
    if (kind == kLost) visitor_.OnLost(fields.Number());
    return fields.good();
  }

  void Who(Reader& fields) {
    JobRef who;
    who.id = fields.Number();
    who.pid = fields.Number();
    who.rejoined = fields.Number() != 0;
    who.user = static_cast<unsigned>(fields.Number());
    who.name = fields.Text();
    who.device = fields.Text();
    who_.push_back(std::move(who));
  }

  bool Turn(Reader& fields) {
    const std::uint64_t flags = fields.Number();
    const std::uint64_t who = fields.Number();
    if (who >= who_.size()) return false;
    turn_.job = who_[who].id;
    turn_.pid = who_[who].pid;
    turn_.rejoined = who_[who].rejoined;
    turn_.user = who_[who].user;
    turn_.name = who_[who].name;
    turn_.device = who_[who].device;
    turn_.died = (flags & kDied) != 0;
    turn_.turn += static_cast<std::uint64_t>(fields.Signed());
    turn_.start = last_end_ + fields.Time();
    turn_.end = last_end_ = turn_.start + fields.Time();
    turn_.steps = fields.Number();
    turn_.ready = fields.Time();
    turn_.waited = fields.Time();
    turn_.hand_over = turn_.ready + fields.Time();
    const std::uint64_t reason = fields.Number();
    const std::string_view numbers = fields.Text();
    if (reason >= texts_.size()) return false;
    turn_.reason = WithNumbers(texts_[reason], numbers);
    const bool moved = (flags & kMoved) != 0;
    turn_.restored = moved ? fields.Number() : 0;
    turn_.ahead = moved ? fields.Number() : 0;
    turn_.spilled = moved ? fields.Number() : 0;
    if (!fields.good()) return false;
    TurnEnded shown = turn_;
    shown.start += wall_;
    shown.end += wall_;
    visitor_.OnTurn(epoch_, shown);
    return true;
  }

  bool Spill(Reader& fields) {
    const std::uint64_t who = fields.Number(), for_whom = fields.Number();
    SpillEnded spill;
    spill.start = last_end_ + fields.Time();
    spill.end = spill.start + fields.Time();
    spill.bytes = fields.Number();
    if (!fields.good() || who >= who_.size() || for_whom > who_.size()) return false;
    spill.job = who_[who];
    if (for_whom > 0) spill.for_job = who_[for_whom - 1];
    spill.start += wall_;
    spill.end += wall_;
    visitor_.OnSpill(epoch_, spill);
    return true;
  }

  Reader in_;
  BlockVisitor& visitor_;
  std::uint64_t epoch_ = 0;
  absl::Duration wall_;
  absl::Time last_end_ = absl::UnixEpoch();
  TurnEnded turn_;
  std::vector<JobRef> who_;
  std::vector<std::string> texts_;
};

// The body of the block that begins here; none: no block does.
std::optional<std::string_view> BodyOf(std::string_view bytes) {
  if (bytes.size() < kBlockHeader || bytes.substr(0, kBlockMagic.size()) != kBlockMagic) return std::nullopt;
  const std::uint32_t size = Get32(bytes.substr(4));
  if (size > kLargestBlock || size > bytes.size() - kBlockHeader) return std::nullopt;
  const std::string_view body = bytes.substr(kBlockHeader, size);
  if (CheckOf(body) != Get32(bytes.substr(8))) return std::nullopt;
  return body;
}

}  // namespace

std::uint64_t BlockWriter::Who(const JobRef& job) {
  const auto [known, is_new] = who_.try_emplace(job.id, who_.size());
  if (!is_new) return known->second;
  std::string fields;
  Put(fields, job.id);
  Put(fields, job.pid);
  Put(fields, job.rejoined);
  Put(fields, job.user);
  PutText(fields, job.name);
  PutText(fields, job.device);
  PutRecord(body_, kWho, fields);
  return known->second;
}

std::uint64_t BlockWriter::Text(const std::string& text) {
  const auto [known, is_new] = texts_.try_emplace(text, texts_.size());
  if (!is_new) return known->second;
  std::string fields;
  PutText(fields, text);
  PutRecord(body_, kText, fields);
  return known->second;
}

void BlockWriter::Add(const TurnEnded& turn) {
  const auto known = who_.find(turn.job);
  const std::uint64_t who = known != who_.end() ? known->second
                                                : Who({.id = turn.job,
                                                       .pid = turn.pid,
                                                       .rejoined = turn.rejoined,
                                                       .user = turn.user,
                                                       .name = turn.name,
                                                       .device = turn.device});
  if (!reason_ || reason_->text != turn.reason) {
    const auto [form, numbers] = WithoutNumbers(turn.reason);
    reason_ = Reason{.text = turn.reason, .form = Text(form), .numbers = numbers};
  }
  const bool moved = turn.restored > 0 || turn.ahead > 0 || turn.spilled > 0;
  const std::int64_t start = absl::ToUnixNanos(turn.start), end = absl::ToUnixNanos(turn.end);
  std::string fields;
  fields.reserve(kUsualTurn);
  Put(fields, (turn.died ? kDied : 0) | (moved ? kMoved : 0));
  Put(fields, who);
  PutSigned(fields, static_cast<std::int64_t>(turn.turn - std::exchange(last_turn_, turn.turn)));
  PutDifference(fields, start, std::exchange(last_end_, end));
  PutDifference(fields, end, start);
  Put(fields, turn.steps);
  PutTime(fields, turn.ready);
  PutTime(fields, turn.waited);
  PutTime(fields, turn.hand_over - turn.ready);
  Put(fields, reason_->form);
  PutText(fields, reason_->numbers);
  if (moved) {
    Put(fields, turn.restored);
    Put(fields, turn.ahead);
    Put(fields, turn.spilled);
  }
  PutRecord(body_, kTurn, fields);
  ++records_;
}

void BlockWriter::Add(const SpillEnded& spill) {
  const std::uint64_t who = Who(spill.job), for_whom = spill.for_job.id == 0 ? 0 : Who(spill.for_job) + 1;
  const std::int64_t start = absl::ToUnixNanos(spill.start), end = absl::ToUnixNanos(spill.end);
  std::string fields;
  Put(fields, who);
  Put(fields, for_whom);
  PutDifference(fields, start, last_end_);
  PutDifference(fields, end, start);
  Put(fields, spill.bytes);
  PutRecord(body_, kSpill, fields);
  ++records_;
}

void BlockWriter::AddJob(const std::string& text) {
  std::string fields;
  PutText(fields, text);
  PutRecord(body_, kJob, fields);
  ++records_;
}

void BlockWriter::AddLost(std::uint64_t records) {
  std::string fields;
  Put(fields, records);
  PutRecord(body_, kLost, fields);
}

std::string BlockWriter::Take(std::uint64_t epoch, absl::Duration wall_less_monotonic) {
  std::string head;
  Put(head, kVersion);
  Put(head, epoch);
  PutTime(head, wall_less_monotonic);
  const std::string body = head + body_;
  std::string block(kBlockMagic);
  Put32(block, static_cast<std::uint32_t>(body.size()));
  Put32(block, CheckOf(body));
  block += body;
  *this = BlockWriter();
  return block;
}

int ReadBlocks(std::string_view bytes, BlockVisitor& visitor) {
  int damaged = 0;
  bool in_garbage = false;
  while (!bytes.empty()) {
    if (const auto body = BodyOf(bytes)) {
      in_garbage = false;
      damaged += !BlockReader(*body, visitor).Read();
      bytes.remove_prefix(kBlockHeader + body->size());
      continue;
    }
    damaged += !std::exchange(in_garbage, true);
    bytes.remove_prefix(std::min(bytes.find(kBlockMagic, 1), bytes.size()));
  }
  return damaged;
}

}  // namespace hocket::coordinator
