#include "csrc/wire/codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "csrc/base/status_macros.h"

namespace hocket::wire {
namespace {

// Most frames fit.
constexpr size_t kUsualFrameSize = 512;

enum Tag : uint16_t { kU64 = 1, kI64 = 2, kF64 = 3, kBytes = 4 };

// Numbers are little-endian in frames, as they are in memory on every machine that has such a GPU.
static_assert(std::endian::native == std::endian::little);

template <typename Unsigned>
void Set(char* bytes, Unsigned value) {
  std::memcpy(bytes, &value, sizeof(value));
}

// REQUIRES: `bytes` holds at least sizeof(Unsigned) from `at` on.
template <typename Unsigned>
Unsigned Get(absl::string_view bytes, size_t at = 0) {
  Unsigned value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// A frame as it grows. It has room for most from the beginning: frames are mostly numbers, many to a
// hand-over.
class Frame {
 public:
  Frame() : bytes_(kUsualFrameSize, '\0') {}

  // Where the next `size` bytes go.
  char* Grow(size_t size) {
    const size_t at = std::exchange(size_, size_ + size);
    if (size_ > bytes_.size()) bytes_.resize(2 * size_);
    return bytes_.data() + at;
  }
  size_t size() const { return size_; }
  // With its size at its begin. REQUIRES: something has been put there.
  std::string Take() && {
    Set<uint32_t>(bytes_.data(), static_cast<uint32_t>(size_));
    bytes_.resize(size_);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  size_t size_ = 0;
};

// Appends each field it is shown to a frame.
class FieldWriter {
 public:
  explicit FieldWriter(Frame& frame) : frame_(frame) {}

  void operator()(uint16_t number, uint64_t value) { Number(number, kU64, value); }
  void operator()(uint16_t number, int64_t value) { Number(number, kI64, static_cast<uint64_t>(value)); }
  void operator()(uint16_t number, double value) { Number(number, kF64, std::bit_cast<uint64_t>(value)); }
  void operator()(uint16_t number, bool value) { Number(number, kU64, value ? 1 : 0); }
  void operator()(uint16_t number, const std::string& value) {
    char* const payload = Field(number, kBytes, value.size());
    std::copy(value.begin(), value.end(), payload);
  }

 private:
  // Where its payload goes.
  char* Field(uint16_t number, Tag tag, size_t length) {
    char* const field = frame_.Grow(kFieldHeaderSize + length);
    Set<uint16_t>(field, number);
    Set<uint16_t>(field + 2, tag);
    Set<uint32_t>(field + 4, static_cast<uint32_t>(length));
    return field + kFieldHeaderSize;
  }
  void Number(uint16_t number, Tag tag, uint64_t value) {
    Set<uint64_t>(Field(number, tag, sizeof(value)), value);
  }

  Frame& frame_;
};

struct RawField {
  uint16_t number;
  uint16_t tag;
  absl::string_view payload;
};
// In the order of the frame, which is that of the struct unless a stranger wrote it: then each is found where
// the one before ended. A message has at most some 25 fields, so looking through them all costs less than a
// map.
struct RawFields {
  absl::InlinedVector<RawField, 32> all;
  bool ascending = true;  // each has a greater number than the one before
};

// Fills each field it is shown from a frame's fields; remembers the first one that does not fit.
class FieldReader {
 public:
  FieldReader(const RawFields& fields, const char* message)
      : fields_(fields), message_(message), next_(fields.all.begin()) {}

  void operator()(uint16_t number, uint64_t& value) { Number(number, kU64, value); }
  void operator()(uint16_t number, int64_t& value) { Number(number, kI64, value); }
  void operator()(uint16_t number, double& value) { Number(number, kF64, value); }
  void operator()(uint16_t number, bool& value) {
    uint64_t raw = value ? 1 : 0;
    Number(number, kU64, raw);
    if (raw > 1)
      Fail(absl::StrCat("field ", number, " of ", message_, " is ", raw, ", which is neither 0 nor 1"));
    value = raw != 0;
  }
  void operator()(uint16_t number, std::string& value) {
    if (const RawField* field = Find(number, kBytes))
      value.assign(field->payload.data(), field->payload.size());
  }

  const absl::Status& status() const { return status_; }

 private:
  // The last one of that number.
  const RawField* Find(uint16_t number) {
    if (fields_.ascending) {
      if (number < std::exchange(asked_, number)) next_ = fields_.all.begin();
      while (next_ != fields_.all.end() && next_->number < number) ++next_;
      return next_ != fields_.all.end() && next_->number == number ? next_ : nullptr;
    }
    const auto field = std::find_if(fields_.all.rbegin(), fields_.all.rend(),
                                    [number](const RawField& raw) { return raw.number == number; });
    return field == fields_.all.rend() ? nullptr : &*field;
  }

  const RawField* Find(uint16_t number, Tag tag) {
    const RawField* const field = Find(number);
    if (field == nullptr || field->tag == tag) return field;
    Fail(absl::StrCat("field ", number, " of ", message_, " has the type tag ", field->tag, ", expected ",
                      tag));
    return nullptr;
  }

  template <typename Value>
  void Number(uint16_t number, Tag tag, Value& value) {
    const RawField* field = Find(number, tag);
    if (field == nullptr) return;
    if (field->payload.size() == sizeof(value)) {
      value = std::bit_cast<Value>(Get<uint64_t>(field->payload));
    } else {
      Fail(absl::StrCat("field ", number, " of ", message_, " says ", field->payload.size(),
                        " bytes, a number has ", sizeof(value)));
    }
  }

  void Fail(const std::string& why) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(why);
  }

  const RawFields& fields_;
  const char* message_;
  const RawField* next_;  // where they ascend: the first that has the number asked for last, or a greater one
  uint16_t asked_ = 0;
  absl::Status status_;
};

absl::StatusOr<RawFields> ParseFields(absl::string_view body) {
  RawFields fields;
  while (!body.empty()) {
    if (body.size() < kFieldHeaderSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("a field's header needs ", kFieldHeaderSize, " bytes, the frame holds ", body.size()));
    }
    const auto number = Get<uint16_t>(body);
    const auto tag = Get<uint16_t>(body, 2);
    const auto length = Get<uint32_t>(body, 4);
    body.remove_prefix(kFieldHeaderSize);
    if (length > body.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", number, " says ", length, " bytes, the frame holds ", body.size()));
    }
    fields.ascending &= fields.all.empty() || fields.all.back().number < number;
    fields.all.push_back({number, tag, body.substr(0, length)});
    body.remove_prefix(length);
  }
  return fields;
}

absl::Status CheckHeader(absl::string_view frame) {
  if (frame.size() < kFrameHeaderSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame's header needs ", kFrameHeaderSize, " bytes, this packet has ", frame.size()));
  }
  const bool refused = Get<uint16_t>(frame, 8) == Refused::kType;  // readable across versions
  if (const auto major = Get<uint16_t>(frame, 4); major != kMajorVersion && !refused) {
    return absl::FailedPreconditionError(
        absl::StrCat("the peer speaks version ", major, " of Hocket's protocol, this side version ",
                     kMajorVersion, ": install the same release of Hocket on both sides"));
  }
  if (const auto length = Get<uint32_t>(frame); length != frame.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the frame says ", length, " bytes, the packet has ", frame.size()));
  }
  if (frame.size() > kMaxFrameSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("the frame has ", frame.size(), " bytes, at most ", kMaxFrameSize, " are allowed"));
  }
  return absl::OkStatus();
}

template <typename Type>
absl::StatusOr<std::optional<Message>> Read(const RawFields& fields) {
  Type message;
  FieldReader reader(fields, Type::kName);
  message.VisitFields(reader);
  HOCKET_RETURN_IF_ERROR(reader.status());
  return Message(std::move(message));
}

// Tries the variant's alternatives one after the other.
template <size_t kIndex = 0>
absl::StatusOr<std::optional<Message>> ReadType(uint16_t type, const RawFields& fields) {
  if constexpr (kIndex == std::variant_size_v<Message>) {
    return std::optional<Message>();
  } else {
    using Type = std::variant_alternative_t<kIndex, Message>;
    return type == Type::kType ? Read<Type>(fields) : ReadType<kIndex + 1>(type, fields);
  }
}

}  // namespace

const char* NameOf(const Message& message) {
  return std::visit([](const auto& m) { return m.kName; }, message);
}

absl::StatusOr<std::string> Encode(const Message& message) {
  Frame frame;
  char* const header = frame.Grow(kFrameHeaderSize);  // its first number, the size, is not known yet
  Set<uint16_t>(header + 4, kMajorVersion);
  Set<uint16_t>(header + 6, kMinorVersion);
  Set<uint16_t>(header + 8, std::visit([](const auto& m) { return m.kType; }, message));
  FieldWriter writer(frame);
  std::visit([&](const auto& m) { const_cast<std::decay_t<decltype(m)>&>(m).VisitFields(writer); }, message);
  if (frame.size() > kMaxFrameSize) {
    return absl::InvalidArgumentError(absl::StrCat("cannot send ", NameOf(message), ": it has ", frame.size(),
                                                   " bytes, at most ", kMaxFrameSize, " are allowed"));
  }
  return std::move(frame).Take();
}

absl::StatusOr<std::optional<Message>> Decode(absl::string_view frame) {
  HOCKET_RETURN_IF_ERROR(CheckHeader(frame));
  const auto type = Get<uint16_t>(frame, 8);
  HOCKET_ASSIGN_OR_RETURN(const RawFields fields, ParseFields(frame.substr(kFrameHeaderSize)));
  return ReadType(type, fields);
}

}  // namespace hocket::wire
