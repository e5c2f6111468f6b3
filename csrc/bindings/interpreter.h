// Waiting for a turn without stopping the other Python threads, and threads that outlive the interpreter.
#ifndef HOCKET_CSRC_BINDINGS_INTERPRETER_H_
#define HOCKET_CSRC_BINDINGS_INTERPRETER_H_

#include <exception>
#include <string>

#include "absl/functional/function_ref.h"
#include "csrc/client/client.h"

namespace hocket {

// Release the interpreter's lock around a wait if the waiting thread holds it (PyTorch calls its allocator
// with and without), and end the wait when a signal's handler raises. While the interpreter is being taken
// down nothing is released: the lock could not be had back.
BlockingHooks InterpreterHooks();

// The innermost Python calls of this thread, a line each, in Python's manner the innermost last; empty: it
// has none. Takes the interpreter's lock, if the thread does not hold it.
std::string PythonStack();

// What a handler on this thread has raised, as PyTorch carries a Python exception through its own code: null:
// nothing. Nothing is raised any more then.
std::exception_ptr TakeRaised();

// Raises it on the main thread, when that next runs Python's code; nothing where it cannot be.
void RaiseSoon(std::exception_ptr raised);

// Runs the handlers of signals that have come. True: one has raised, and that is to be thrown. REQUIRES: this
// thread holds the interpreter's lock.
bool HandlerRaises();

// Calls `use` with the interpreter's lock held, on any thread; not at all while the interpreter ends.
void WithInterpreter(absl::FunctionRef<void()> use);

// From now on a thread that asks for the interpreter's lock while the interpreter ends stands still until the
// process is gone, whoever's thread it is. Python before 3.14 ends it by pthread_exit() instead, which
// unwinds the stack and so aborts the process where a destructor is on it: PyTorch's threads ask when they
// drop the last reference to a tensor (docs/decisions/0037). Where the interpreter's call cannot be
// redirected nothing changes.
void KeepThreadsAtTheEnd();

// Releases the interpreter's lock for its life, if this thread holds it: py::call_guard<Unlocked>() around
// what can wait. Unlike pybind11's, a thread that waits while the interpreter ends does not abort the
// process.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;

 private:
  void* const thread_state_;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_BINDINGS_INTERPRETER_H_
