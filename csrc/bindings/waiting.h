// Threads of a Python program that wait in the standard library: for a queue, a lock, a process, a socket,
// for somebody at a debugger's prompt. They come back through Python's code, so they cannot go on while the
// interpreter's lock is held, and what they do next with a GPU begins with an operator of PyTorch's, an
// allocation, a step or a graph's replay.
//
// Seen by the innermost Python call, which has to be one of the few functions of the standard library that
// block. A thread within PyTorch, or in a call of a C extension, has its caller there: the program's
// function. So `time.sleep()` and `input()` are no such places, nor is Python's own prompt.
#ifndef HOCKET_CSRC_BINDINGS_WAITING_H_
#define HOCKET_CSRC_BINDINGS_WAITING_H_

#include "csrc/client/parking.h"

namespace hocket {

// The hook of this interpreter. Where threads run without its lock (free-threaded builds) it parks nobody.
ParkingHook WaitingInPython();

}  // namespace hocket

#endif  // HOCKET_CSRC_BINDINGS_WAITING_H_
