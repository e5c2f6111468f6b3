// What goes into the core and what comes out of it, in words: for the story of a random world.
#ifndef HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_WORDS_H_
#define HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_WORDS_H_

#include <string>

#include "coordinator/core/events.h"

namespace hocket::coordinator {

// As "job 3 asks for the turn, Wait number 7". Without its time.
std::string InWords(const Event& event);
// Empty: not worth a line.
std::string InWords(const Action& action);

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_WORDS_H_
