#include "csrc/bindings/waiting.h"

#include <Python.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "csrc/bindings/interpreter.h"

namespace hocket {
namespace {

struct Place {
  absl::string_view file;  // in the standard library's folder
  absl::string_view function;
};

// Each calls what blocks, and otherwise only what is Python's own.
constexpr std::array kPlaces = {
    Place{"threading.py", "wait"},
    Place{"threading.py", "join"},
    Place{"threading.py", "_wait_for_tstate_lock"},
    Place{"threading.py", "_shutdown"},
    Place{"concurrent/futures/thread.py", "_worker"},
    Place{"multiprocessing/connection.py", "_recv"},
    Place{"multiprocessing/connection.py", "_send"},
    Place{"multiprocessing/connection.py", "accept"},
    Place{"multiprocessing/synchronize.py", "__enter__"},
    Place{"multiprocessing/synchronize.py", "wait"},
    Place{"multiprocessing/popen_fork.py", "poll"},
    Place{"selectors.py", "select"},
    Place{"socket.py", "accept"},
    Place{"socket.py", "readinto"},
    Place{"ssl.py", "read"},
    Place{"subprocess.py", "_try_wait"},
    Place{"subprocess.py", "communicate"},
    Place{"cmd.py", "cmdloop"},     // pdb's prompt
    Place{"code.py", "raw_input"},  // code.interact()'s
};

absl::string_view View(PyObject* string) {
  const char* const text = PyUnicode_AsUTF8(string);
  return text != nullptr ? text : "";
}

// The folder with the standard library's modules, and a slash; empty: it is not known.
const std::string& StandardLibrary() {
  static const std::string* const folder = [] {
    const pybind11::error_scope keeps_what_was_raised;
    try {
      const auto file = pybind11::module_::import("threading").attr("__file__").cast<std::string>();
      return new std::string(file.substr(0, file.rfind('/') + 1));
    } catch (const std::exception&) {
      return new std::string;
    }
  }();
  return *folder;
}

bool IsPlace(PyCodeObject* code) {
  absl::string_view file = View(code->co_filename);
  const absl::string_view function = View(code->co_name);
  if (StandardLibrary().empty() || !absl::ConsumePrefix(&file, StandardLibrary())) return false;
  return std::any_of(kPlaces.begin(), kPlaces.end(),
                     [&](const Place& place) { return place.file == file && place.function == function; });
}

// REQUIRES: this thread holds the interpreter's lock. Runs none of Python's code.
bool WaitsInStandardLibrary(pthread_t thread) {
  PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (state != nullptr && state->thread_id != static_cast<unsigned long>(thread))
    state = PyThreadState_Next(state);
  PyFrameObject* const frame = state == nullptr ? nullptr : PyThreadState_GetFrame(state);
  if (frame == nullptr) return false;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const bool is_place = IsPlace(code);
  Py_DECREF(code);
  Py_DECREF(frame);
  return is_place;
}

}  // namespace

// A collection of garbage would run the program's code, and let others run theirs.
ParkingHook WaitingInPython() {
#ifdef Py_GIL_DISABLED
  return nullptr;
#else
  (void)StandardLibrary();  // here its import may run what it likes
  return [](absl::FunctionRef<void(IsWaiting)> park) {
    WithInterpreter([&] {
      const int collects = PyGC_Disable();
      park(&WaitsInStandardLibrary);
      if (collects != 0) PyGC_Enable();
    });
  };
#endif
}

}  // namespace hocket
