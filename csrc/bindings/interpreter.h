// Waiting for a turn without stopping the other Python threads.
#ifndef HOCKET_CSRC_BINDINGS_INTERPRETER_H_
#define HOCKET_CSRC_BINDINGS_INTERPRETER_H_

#include "csrc/client/client.h"

namespace hocket {

// Release the interpreter's lock around a wait if the waiting thread holds it (PyTorch calls its allocator
// with and without), and end the wait when a signal's handler raises. While the interpreter is being taken
// down nothing is released: the lock could not be had back.
BlockingHooks InterpreterHooks();

}  // namespace hocket

#endif  // HOCKET_CSRC_BINDINGS_INTERPRETER_H_
