// Config files with any content, as `hocket config check`, `import hocket` and whoever starts a coordinator
// read them: in Python, which runs in this process. Each mistake has a sentence; what passes, the coordinator
// takes.
//
// The interpreter says which line it is at, and the pairs of lines that follow each other are counted for the
// fuzzer, beside what the compiler counts of C++: so it is guided in Python, too (CPython,
// Doc/c-api/init.rst, "Profiling and Tracing"; LLVM, docs/LibFuzzer.rst, extra counters).
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "coordinator/flags.h"
#include "csrc/base/bytes.h"
#include "csrc/base/check.h"
#include "tests/fuzz/folder.h"

// The interpreter keeps what it has until the process ends.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT: its name

namespace hocket::fuzz {
namespace {

constexpr std::size_t kCounters = 1 << 14;
[[gnu::used, gnu::section("__libfuzzer_extra_counters")]] std::uint8_t counters[kCounters];

struct Seen {
  bool counts = false;
  std::size_t salt = 0;
};

// The config file's reader and its parser of TOML.
Seen& SeenOf(PyCodeObject* code) {
  static auto& seen = *new std::unordered_map<PyCodeObject*, Seen>();
  const auto [at, fresh] = seen.try_emplace(code);
  if (fresh) {
    Py_INCREF(code);  // its address is nobody else's from now on
    const std::string file = PyUnicode_AsUTF8(code->co_filename);
    at->second = {
        .counts = file.find("_config.py") != std::string::npos || file.find("toml") != std::string::npos,
        .salt = seen.size() * 7919};
  }
  return at->second;
}

int Trace(PyObject*, PyFrameObject* frame, int what, PyObject*) {
  if (what != PyTrace_LINE && what != PyTrace_CALL) return 0;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const Seen& seen = SeenOf(code);
  Py_DECREF(code);
  if (!seen.counts) return 0;
  static std::size_t before = 0;
  const std::size_t here = seen.salt + static_cast<std::size_t>(PyFrame_GetLineNumber(frame));
  ++counters[(before * 31 + here) % kCounters];
  before = what == PyTrace_CALL ? 0 : here;
  return 0;
}

[[noreturn]] void Fails(const char* what) {
  PyErr_Print();
  HOCKET_CHECK(false) << what;
  std::abort();
}

// hocket._control's, without the rest of it.
PyObject* ParseBytesFor(PyObject*, PyObject* text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) return nullptr;  // with an exception set
  const auto parsed = ParseBytes({bytes, static_cast<std::size_t>(size)});
  if (parsed.ok()) return PyLong_FromUnsignedLongLong(*parsed);
  PyErr_SetString(PyExc_ValueError, std::string(parsed.status().message()).c_str());
  return nullptr;
}

PyObject* MakeControl() {
  static PyMethodDef methods[] = {{"parse_bytes", ParseBytesFor, METH_O, nullptr}, {}};
  static PyModuleDef module{
      .m_base = PyModuleDef_HEAD_INIT, .m_name = "hocket._control", .m_methods = methods};
  return PyModule_Create(&module);
}

// tests/fuzz/config_reader.py's check().
PyObject* Reader() {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  const PyStatus started = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  HOCKET_CHECK(!PyStatus_Exception(started)) << "Python does not start: " << started.err_msg;
  PyObject* const path = PySys_GetObject("path");
  PyObject* const folder = PyUnicode_FromString(HOCKET_SOURCE "/tests/fuzz");
  if (PyList_Append(path, folder) != 0) Fails("no path");
  PyObject* const reader = PyImport_ImportModule("config_reader");
  if (reader == nullptr || !PyObject_CallMethod(reader, "load", "s", HOCKET_SOURCE "/python"))
    Fails("the reader of config files cannot be had");
  PyObject* const modules = PySys_GetObject("modules");
  if (PyDict_SetItemString(modules, "hocket._control", MakeControl()) != 0) Fails("no module");
  PyEval_SetTrace(Trace, nullptr);
  return PyObject_GetAttrString(reader, "check");
}

// What a file stands for goes into the environment, and from there to the coordinator.
void CoordinatorTakes(PyObject* variables) {
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(variables, &at, &name, &value);)
    setenv(PyUnicode_AsUTF8(name), PyUnicode_AsUTF8(value), /*overwrite=*/1);
  static std::string program = "hocketd";
  char* arguments[] = {program.data(), nullptr};
  const auto flags = coordinator::ParseFlags(1, arguments);
  HOCKET_CHECK(flags.ok()) << "the reader lets through what the coordinator refuses: "
                           << flags.status().message();
  for (Py_ssize_t at = 0; PyDict_Next(variables, &at, &name, &value);) unsetenv(PyUnicode_AsUTF8(name));
}

}  // namespace
}  // namespace hocket::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::fuzz;
  static PyObject* const check = Reader();
  const std::string file = Folder() + "/config.toml";
  WriteFile(file, {reinterpret_cast<const char*>(data), size});
  PyObject* const variables = PyObject_CallFunction(check, "s", file.c_str());
  if (variables == nullptr) Fails("the reader of config files fails");
  CoordinatorTakes(variables);
  Py_DECREF(variables);
  return 0;
}
