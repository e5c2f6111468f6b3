// A line for whoever looks at the program's error output.
#ifndef HOCKET_CSRC_BASE_SAY_H_
#define HOCKET_CSRC_BASE_SAY_H_

#include <string_view>

namespace hocket {

// Writes "hocket: `text`" and a new line to stderr. Never waits: a terminal that is stopped (Ctrl-S), or a
// pipe that is full, must not hold up a thread that has the turn, or a lock; then the line is lost. May be
// called with any lock held, by any thread.
void Say(std::string_view text);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_SAY_H_
