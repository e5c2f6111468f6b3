#include "csrc/bindings/errors.h"

#include <string>

namespace py = pybind11;

namespace hocket {
namespace {

py::object ExceptionFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return py::reinterpret_borrow<py::object>(PyExc_ValueError);
    case absl::StatusCode::kCancelled:
      return py::reinterpret_borrow<py::object>(PyExc_KeyboardInterrupt);
    case absl::StatusCode::kResourceExhausted:
      return py::reinterpret_borrow<py::object>(PyExc_MemoryError);
    case absl::StatusCode::kUnavailable:
      return py::module_::import("hocket.errors").attr("CoordinatorUnavailable");
    default:
      return py::module_::import("hocket.errors").attr("HocketError");
  }
}

}  // namespace

void RaiseIfFailed(const absl::Status& status) {
  if (status.ok()) return;
  py::gil_scoped_acquire lock;
  // An interrupted wait leaves the handler's exception behind.
  if (PyErr_Occurred() == nullptr) {
    PyErr_SetString(ExceptionFor(status.code()).ptr(), std::string(status.message()).c_str());
  }
  throw py::error_already_set();
}

}  // namespace hocket
