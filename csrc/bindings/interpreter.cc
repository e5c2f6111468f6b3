#include "csrc/bindings/interpreter.h"

#include <Python.h>
#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hocket {
namespace {

bool Running() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// Calls `take`, which takes the interpreter's lock. While the interpreter ends it ends the thread instead
// (pthread_exit), and below C++ code that lets no exception through that would abort the process. So such a
// thread stays here until the process is gone, as it does by itself from Python 3.14 on.
template <typename Function>
void TakeOrStay(Function take) {
  try {
    take();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// The released thread state; nullptr: this thread did not hold the lock.
void* Release() { return Running() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

void Reacquire(void* thread_state) {
  if (thread_state == nullptr) return;
  TakeOrStay([thread_state] { PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state)); });
}

// Python runs signal handlers on its main thread only; on any other there is nothing to do.
bool HandlerRaised() {
  if (!Running() || PyGILState_GetThisThreadState() == nullptr) return false;
  bool raised = false;
  TakeOrStay([&raised] {
    const PyGILState_STATE lock = PyGILState_Ensure();
    raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(lock);
  });
  return raised;
}

constexpr std::size_t kCalls = 12;

std::string Text(PyObject* string) {
  const char* const text = PyUnicode_AsUTF8(string);
  return text != nullptr ? text : "?";
}

std::string ToString(PyFrameObject* frame) {
  PyCodeObject* const code = PyFrame_GetCode(frame);
  std::string text = absl::StrCat("  File \"", Text(code->co_filename), "\", line ",
                                  PyFrame_GetLineNumber(frame), ", in ", Text(code->co_name));
  Py_DECREF(code);
  return text;
}

// REQUIRES: this thread holds the interpreter's lock.
std::string InnermostCalls() {
  const pybind11::error_scope keeps_what_was_raised;
  std::vector<std::string> calls;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr && calls.size() < kCalls) {
    calls.push_back(ToString(frame));
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  std::reverse(calls.begin(), calls.end());
  return absl::StrJoin(calls, "\n");
}

}  // namespace

std::string PythonStack() {
  std::string stack;
  if (!Running() || PyGILState_GetThisThreadState() == nullptr) return stack;
  TakeOrStay([&stack] {
    const PyGILState_STATE lock = PyGILState_Ensure();
    stack = InnermostCalls();
    PyGILState_Release(lock);
  });
  return stack;
}

Unlocked::Unlocked() : thread_state_(Release()) {}
Unlocked::~Unlocked() { Reacquire(thread_state_); }

BlockingHooks InterpreterHooks() { return {&Release, &Reacquire, &HandlerRaised}; }

}  // namespace hocket
