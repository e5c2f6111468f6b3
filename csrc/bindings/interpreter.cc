#include "csrc/bindings/interpreter.h"

#include <Python.h>
#include <cxxabi.h>
#include <pthread.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csrc/base/redirect.h"
#include "csrc/torch/process.h"

namespace hocket {
namespace {

bool Running() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

[[noreturn]] void Stay() {
  for (;;) pause();
}

// Calls `take`, which takes the interpreter's lock, or does not return while the interpreter ends. For where
// the interpreter's call of pthread_exit() could not be redirected: it is caught here.
template <typename Function>
void TakeOrStay(Function take) {
  try {
    take();
  } catch (const abi::__forced_unwind&) {
    Stay();
  }
}

#if PY_VERSION_HEX < 0x030E0000
// What the interpreter calls in pthread_exit()'s place.
[[noreturn]] void ExitOrStay(void* result) {
  if (!Running()) Stay();
  pthread_exit(result);
}
#endif

// The released thread state; nullptr: this thread did not hold the lock.
void* Release() { return Running() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

void Reacquire(void* thread_state) {
  if (thread_state == nullptr) return;
  TakeOrStay([thread_state] { PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state)); });
}

// Python runs signal handlers on its main thread only; on any other there is nothing to do.
void RunHandlers(InOwnCode in_own_code) {
  if (!Running() || PyGILState_GetThisThreadState() == nullptr) return;
  TakeOrStay([&] {
    const PyGILState_STATE lock = PyGILState_Ensure();
    in_own_code([] { return Process::Get().RunOwnCode([] { return PyErr_CheckSignals() != 0; }); });
    PyGILState_Release(lock);
  });
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

std::exception_ptr TakeRaised() {
  std::exception_ptr raised;
  if (!Running() || PyGILState_GetThisThreadState() == nullptr) return raised;
  TakeOrStay([&raised] {
    const PyGILState_STATE lock = PyGILState_Ensure();
    if (PyErr_Occurred() != nullptr) {
      python_error error;
      error.persist();
      raised = std::make_exception_ptr(std::move(error));
    }
    PyGILState_Release(lock);
  });
  return raised;
}

namespace {

// Called by Python, on its main thread.
int Raise(void* what) {
  const std::unique_ptr<std::exception_ptr> raised(static_cast<std::exception_ptr*>(what));
  try {
    std::rethrow_exception(*raised);
  } catch (python_error& error) {
    error.restore();
  } catch (...) {
    return 0;
  }
  return -1;
}

}  // namespace

void RaiseSoon(std::exception_ptr raised) {
  auto what = std::make_unique<std::exception_ptr>(std::move(raised));
  if (Running() && Py_AddPendingCall(&Raise, what.get()) == 0) (void)what.release();
}

bool HandlerRaises() { return Running() && PyErr_CheckSignals() != 0; }

void WithInterpreter(absl::FunctionRef<void()> use) {
  if (!Running()) return;
  TakeOrStay([&] {
    const PyGILState_STATE lock = PyGILState_Ensure();
    use();
    PyGILState_Release(lock);
  });
}

void KeepThreadsAtTheEnd() {
#if PY_VERSION_HEX < 0x030E0000
  // Whatever has this function, the program or libpython, has the only call.
  (void)RedirectCallsFrom(reinterpret_cast<void*>(&PyThread_exit_thread),
                          {{"pthread_exit", reinterpret_cast<void*>(&ExitOrStay)}});
#endif
}

Unlocked::Unlocked() : thread_state_(Release()) {}
Unlocked::~Unlocked() { Reacquire(thread_state_); }

BlockingHooks InterpreterHooks() { return {&Release, &Reacquire, &RunHandlers}; }

}  // namespace hocket
