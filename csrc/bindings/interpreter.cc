#include "csrc/bindings/interpreter.h"

#include <Python.h>

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

void Reacquire(void* thread_state) {
  if (thread_state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state));
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
