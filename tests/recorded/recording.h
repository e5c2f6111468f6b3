// Frames as one release of Hocket said them, in files that every later release must understand.
//
// A recording is a conversation, line by line, of one real side with another that only plays:
//
//   coordinator.bin   a real coordinator; the lines say what the jobs and the command line send it
//   job.bin           a real job; the lines say what the coordinator sends it, and what its program does
//
// A file is its lines, one after the other:
//
//   line   u32 length of the bytes | u8 kind | u8 peer | u8 descriptor | u8 0 | the bytes
//
// Little-endian. The bytes are a whole frame as it lay in the socket, or for kDo a verb of the stage.
#ifndef HOCKET_TESTS_RECORDED_RECORDING_H_
#define HOCKET_TESTS_RECORDED_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/wire/messages.h"

namespace hocket::recorded {

enum class Kind : std::uint8_t {
  kSay = 0,   // this frame is sent to the real side
  kHear = 1,  // the real side says a message of this frame's type; others may come before it
  kDo = 2,    // something happens that is no message
};
enum class Carries : std::uint8_t { kNothing = 0, kPage = 1, kMemory = 2 };  // the frame's descriptor

struct Line {
  Kind kind = Kind::kSay;
  std::uint8_t peer = 0;  // which connection, where there are several
  Carries carries = Carries::kNothing;
  std::string bytes;
};
using Recording = std::vector<Line>;

Line Say(int peer, const wire::Message& message, Carries carries = Carries::kNothing);
template <typename Type>
Line Hear(int peer);  // what is heard fills it
Line Do(int peer, const std::string& verb);

// The type and the major version that a frame names.
std::uint16_t TypeOf(const std::string& frame);
std::uint16_t MajorOf(const std::string& frame);

// Throw std::runtime_error, with the path and what is wrong.
Recording Read(const std::string& path);
void Write(const std::string& path, const Recording& recording);

// Where a conversation takes place: the real side and connections to it.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual void Say(int peer, const std::string& frame, Carries carries) = 0;
  // The next frame from the real side. Throws std::runtime_error when none comes any more.
  virtual std::string Hear(int peer) = 0;
  virtual void Do(int peer, const std::string& verb) = 0;
};

// Plays the lines in order and returns them, with what has really been heard. Throws std::runtime_error, with
// the line's number and what was expected, where the real side does not keep to them.
Recording Play(const Recording& script, Stage& stage);

// What today's release says: the scripts from which recordings are made.
Recording CoordinatorScript();
Recording JobScript();

template <typename Type>
Line Hear(int peer) {
  Line line = Say(peer, wire::Message(Type{}));
  line.kind = Kind::kHear;
  return line;
}

}  // namespace hocket::recorded

#endif  // HOCKET_TESTS_RECORDED_RECORDING_H_
