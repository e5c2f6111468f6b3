#include "tests/recorded/recording.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "csrc/wire/codec.h"

namespace hocket::recorded {
namespace {

constexpr size_t kLineHeader = 8;

unsigned Byte(const std::string& bytes, size_t at) { return static_cast<unsigned char>(bytes[at]); }

std::uint16_t Word(const std::string& bytes, size_t at) {
  return static_cast<std::uint16_t>(Byte(bytes, at) | Byte(bytes, at + 1) << 8);
}

// "3 Refused: ..." or "type 99": for people who read why a replay failed.
std::string Named(const std::string& frame) {
  const auto message = wire::Decode(frame);
  if (!message.ok() || !*message) return "type " + std::to_string(TypeOf(frame));
  std::string name = wire::NameOf(**message);
  if (const auto* refused = std::get_if<wire::Refused>(&**message)) name += " (" + refused->reason + ")";
  return name;
}

std::string HearType(const Line& line, Stage& stage) {
  const std::uint16_t wanted = TypeOf(line.bytes);
  std::string others;
  for (;;) {
    std::string frame;
    try {
      frame = stage.Hear(line.peer);
    } catch (const std::runtime_error& end) {
      throw std::runtime_error("expected " + Named(line.bytes) + " to peer " + std::to_string(line.peer) +
                               "; what came:" + others + "; then: " + end.what());
    }
    if (TypeOf(frame) == wanted) return frame;
    others += " " + Named(frame);
  }
}

}  // namespace

Line Say(int peer, const wire::Message& message, Carries carries) {
  return {Kind::kSay, static_cast<std::uint8_t>(peer), carries, wire::Encode(message).value()};
}

Line Do(int peer, const std::string& verb) {
  return {Kind::kDo, static_cast<std::uint8_t>(peer), Carries::kNothing, verb};
}

std::uint16_t TypeOf(const std::string& frame) { return Word(frame, 8); }
std::uint16_t MajorOf(const std::string& frame) { return Word(frame, 4); }

Recording Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Recording lines;
  for (size_t at = 0; at < all.size();) {
    const size_t left = all.size() - at;
    const size_t length = left < kLineHeader ? left : Word(all, at) | size_t{Word(all, at + 2)} << 16;
    if (left < kLineHeader || length > left - kLineHeader)
      throw std::runtime_error(path + ": line " + std::to_string(lines.size() + 1) + " is cut off");
    lines.push_back({static_cast<Kind>(Byte(all, at + 4)), static_cast<std::uint8_t>(Byte(all, at + 5)),
                     static_cast<Carries>(Byte(all, at + 6)), all.substr(at + kLineHeader, length)});
    at += kLineHeader + length;
  }
  return lines;
}

void Write(const std::string& path, const Recording& recording) {
  std::ofstream file(path, std::ios::binary);
  for (const Line& line : recording) {
    for (unsigned shift = 0; shift < 32; shift += 8) file.put(static_cast<char>(line.bytes.size() >> shift));
    for (unsigned field :
         {static_cast<unsigned>(line.kind), unsigned{line.peer}, static_cast<unsigned>(line.carries), 0u})
      file.put(static_cast<char>(field));
    file << line.bytes;
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

Recording Play(const Recording& script, Stage& stage) {
  Recording played;
  for (const Line& line : script) {
    played.push_back(line);
    try {
      if (line.kind == Kind::kSay) stage.Say(line.peer, line.bytes, line.carries);
      if (line.kind == Kind::kHear) played.back().bytes = HearType(line, stage);
      if (line.kind == Kind::kDo) stage.Do(line.peer, line.bytes);
    } catch (const std::exception& trouble) {
      throw std::runtime_error("line " + std::to_string(played.size()) + ": " + trouble.what());
    }
  }
  return played;
}

}  // namespace hocket::recorded
