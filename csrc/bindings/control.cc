// hocket._control: what the command line needs, without torch. Names only; the logic is in csrc/wire,
// csrc/base and allocator/driver. Its types are in python/hocket/_control.pyi.
#include "csrc/wire/control.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "allocator/driver.h"
#include "csrc/base/bytes.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"
#include "csrc/bindings/errors.h"
#include "csrc/wire/sign.h"

namespace py = pybind11;

namespace hocket {
namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

// kUnavailable becomes CoordinatorUnavailable (errors.h), and that is to say here that none runs. One that
// cannot be reached, or hung up, may well run.
absl::Status OfCoordinator(const absl::Status& status) {
  if (absl::IsNotFound(status)) return absl::UnavailableError(status.message());
  if (absl::IsUnavailable(status)) return absl::UnknownError(status.message());
  return status;
}

std::string Control(const std::string& socket_path, const std::string& command,
                    const std::string& arguments_json, int timeout_ms) {
  auto answer = wire::Control(socket_path, command, arguments_json, timeout_ms);
  RaiseIfFailed(OfCoordinator(answer.status()));
  return *std::move(answer);
}

std::string EnsuredRuntimeDir() { return ValueOrRaise(EnsureRuntimeDir()); }

Bytes Parse(const std::string& text) { return ValueOrRaise(ParseBytes(text)); }

struct DeviceFound {
  std::string name, uuid;
  Bytes capacity = 0, free = 0;
  std::string alone;  // why only one process can use it, or none; empty: several can
};

absl::StatusOr<DeviceFound> Look(const Driver& driver, int ordinal) {
  DeviceFound found;
  HOCKET_ASSIGN_OR_RETURN(found.name, driver.DeviceName(ordinal));
  HOCKET_ASSIGN_OR_RETURN(found.uuid, driver.DeviceUuid(ordinal));
  HOCKET_ASSIGN_OR_RETURN(found.capacity, driver.DeviceCapacity(ordinal));
  found.alone = std::string(driver.CheckSharing(ordinal).message());
  if (!found.alone.empty()) return found;  // a context here would keep a job from having one
  HOCKET_ASSIGN_OR_RETURN(const ContextHandle context, driver.PrimaryContext(ordinal));
  HOCKET_RETURN_IF_ERROR(driver.UseContext(context));
  HOCKET_ASSIGN_OR_RETURN(const DeviceMemory memory, driver.MemoryInfo());
  found.capacity = memory.total;
  found.free = memory.free;
  return found;
}

absl::StatusOr<std::vector<DeviceFound>> LookForDevices() {
  HOCKET_ASSIGN_OR_RETURN(const std::unique_ptr<Driver> driver, Driver::Open());
  HOCKET_ASSIGN_OR_RETURN(const int count, driver->DeviceCount());
  std::vector<DeviceFound> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    HOCKET_ASSIGN_OR_RETURN(DeviceFound found, Look(*driver, ordinal));
    devices.push_back(std::move(found));
  }
  return devices;
}

py::dict ProbeDriver() {
  const auto devices = [] {
    py::gil_scoped_release unlocked;
    return LookForDevices();
  }();
  py::list list;
  for (const DeviceFound& device : devices.ok() ? *devices : std::vector<DeviceFound>()) {
    list.append(py::dict(py::arg("name") = device.name, py::arg("uuid") = device.uuid,
                         py::arg("capacity") = device.capacity, py::arg("free") = device.free,
                         py::arg("alone") = device.alone));
  }
  return py::dict(py::arg("found") = devices.ok() && !devices->empty(),
                  py::arg("reason") = std::string(devices.status().message()),
                  py::arg("version") = DriverVersion().value_or(0), py::arg("devices") = list);
}

py::list Coordinators() {
  py::list list;
  for (const wire::CoordinatorSeen& seen : wire::CoordinatorsSeen()) {
    list.append(py::dict(py::arg("uid") = seen.uid, py::arg("pid") = seen.pid, py::arg("epoch") = seen.epoch,
                         py::arg("device") = seen.device));
  }
  return list;
}

}  // namespace
}  // namespace hocket

PYBIND11_MODULE(_control, m) {
  using namespace hocket;
  m.attr("built_for_torch") = HOCKET_TORCH_VERSION;
  m.attr("version") = HOCKET_VERSION;
  m.def("control", &Control, py::arg("socket_path"), py::arg("command"), py::arg("arguments_json"),
        py::arg("timeout_ms") = 10000, Unlocked());
  m.def("socket_path", &SocketPath);
  m.def("runtime_dir", &RuntimeDir);
  m.def("ensure_runtime_dir", &EnsuredRuntimeDir);
  m.def("parse_bytes", &Parse, py::arg("text"));
  m.def("format_bytes", &FormatBytes, py::arg("size"));
  m.def("probe_driver", &ProbeDriver);
  m.def("coordinators", &Coordinators);
}
