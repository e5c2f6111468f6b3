#include "csrc/bindings/interpreter.h"

#include <Python.h>
#include <unistd.h>

namespace hocket {
namespace {

bool Running() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// The released thread state; nullptr: this thread did not hold the lock.
void* Release() { return Running() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

// While the interpreter ends, it ends a thread that asks for its lock (pthread_exit), and that must not
// happen below C++ code that lets no exception through: the process would abort. So such a thread stays here.
// (One that has passed this question just before shares the fate of every thread of torch's that asks at that
// moment.)
void Reacquire(void* thread_state) {
  if (thread_state == nullptr) return;
  while (!Running()) pause();
  PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state));
}

// Python runs signal handlers on its main thread only; on any other there is nothing to do.
bool HandlerRaised() {
  if (!Running() || PyGILState_GetThisThreadState() == nullptr) return false;
  const PyGILState_STATE lock = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(lock);
  return raised;
}

}  // namespace

BlockingHooks InterpreterHooks() { return {&Release, &Reacquire, &HandlerRaised}; }

}  // namespace hocket
