// hocket._native: this process as a job, over PyTorch. Names only; the logic is in csrc/torch and
// csrc/client. Its types are in python/hocket/_native.pyi.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "csrc/bindings/errors.h"
#include "csrc/bindings/interpreter.h"
#include "csrc/bindings/waiting.h"
#include "csrc/torch/process.h"

namespace py = pybind11;

namespace hocket {
namespace {

using Waits = py::call_guard<Unlocked>;

void InstallAllocator() { RaiseIfFailed(Process::Get().Install()); }
Bytes KeepNativeAllocator() { return ValueOrRaise(Process::Get().KeepNative()); }
void Join() { RaiseIfFailed(Process::Get().Join()); }
void EndStep(bool count, std::optional<Process::StepId> step) {
  const Unlocked unlocked;
  if (!step) return Process::Get().EndStep(count);
  RaiseIfFailed(Process::Get().EndStep(count, *step));
}

// A signal that came while bytes came back is heard of here, not by the caller: he has not begun to see to
// the step's end.
Process::StepId BeginStep(bool guessed) {
  {
    const Unlocked unlocked;
    RaiseIfFailed(Process::Get().BeginStep(guessed));
  }
  const Process::StepId step = Process::Get().LastStep();
  if (!HandlerRaises()) return step;
  py::error_already_set raised;
  EndStep(/*count=*/false, step);
  throw std::move(raised);
}
void ExpectStrays(bool expected) { Process::Get().ExpectStrays(expected); }
void BeginAway() { Process::Get().BeginAway(); }
void EndAway() { RaiseIfFailed(Process::Get().EndAway()); }
void Leave() { Process::Get().Leave(); }
void LeaveAtExit() { Process::Get().LeaveAtExit(); }
std::string AllocatorInUse() { return Process::Get().AllocatorInUse(); }

void Configure(const std::string& name, double weight, const std::string& priority,
               std::uint64_t memory_limit, std::uint64_t total_steps, bool serves, const std::string& group) {
  Process::Get().Configure({.name = name,
                            .weight = weight,
                            .priority = priority,
                            .memory_limit = memory_limit,
                            .total_steps = total_steps,
                            .torch_version = Process::BuiltFor(),
                            .group = group,
                            .serves = serves});
}

// `tensor`: its _cdata.
Bytes DeclareConstant(std::uintptr_t tensor, const std::string& name) {
  return ValueOrRaise(
      Process::Get().DeclareConstant(*reinterpret_cast<const c10::TensorImpl*>(tensor), name));
}

void EndConstant(DevicePtr address) { Process::Get().EndConstant(address); }

Bytes SetStage(DevicePtr address, Stage stage) {
  return ValueOrRaise(Process::Get().SetStage(address, stage));
}
void AwaitStage(Stage stage) { RaiseIfFailed(Process::Get().AwaitStage(stage)); }

void JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) {
  Process::Get().JoinGang(gang, rank, size);
}

py::dict Info() {
  const JobInfo info = Process::Get().Info();
  return py::dict(py::arg("id") = info.id, py::arg("name") = info.name,
                  py::arg("device_name") = info.device_name, py::arg("sharing_with") = info.sharing_with,
                  py::arg("steps") = info.steps, py::arg("turns") = info.turns,
                  py::arg("joined") = info.joined, py::arg("coordinated") = info.coordinated,
                  py::arg("holds_turn") = info.holds_turn);
}

py::dict Holding(const Process::DeviceHoldings& on) {
  return py::dict(
      py::arg("device") = on.device, py::arg("uuid") = on.uuid, py::arg("persistent") = on.held.persistent,
      py::arg("following") = on.held.following, py::arg("arena") = on.held.arena,
      py::arg("spilled") = on.held.spilled, py::arg("transient_peak") = on.held.transient_peak,
      py::arg("spilled_total") = on.held.spilled_total, py::arg("restored_total") = on.held.restored_total,
      py::arg("spared_total") = on.held.spared_total, py::arg("adopted_total") = on.held.adopted_total,
      py::arg("adopted_last") = on.held.adopted_last, py::arg("adopted") = on.held.adopted,
      py::arg("survived_total") = on.held.survived_total, py::arg("foreseen_total") = on.held.foreseen_total,
      py::arg("step_allocations") = on.held.step_allocations,
      py::arg("planned_allocations") = on.held.planned_allocations,
      py::arg("deviating_allocations") = on.held.deviating_allocations, py::arg("strays") = on.held.strays,
      py::arg("maps_spilled") = on.held.maps_spilled);
}

py::list HoldingsOfDevices() {
  std::vector<Process::DeviceHoldings> held;
  {
    const Unlocked unlocked;  // an allocator that spills keeps its lock for as long as that takes
    held = Process::Get().Held();
  }
  py::list result;
  for (const auto& on : held) result.append(Holding(on));
  return result;
}

}  // namespace
}  // namespace hocket

PYBIND11_MODULE(_native, m) {
  using namespace hocket;
  m.attr("built_for") = Process::BuiltFor();
  m.def("install_allocator", &InstallAllocator, Waits());
  m.def("keep_native_allocator", &KeepNativeAllocator, Waits());
  m.def("allocator_in_use", &AllocatorInUse);
  m.def("configure", &Configure, py::arg("name"), py::arg("weight"), py::arg("priority"),
        py::arg("memory_limit"), py::arg("total_steps"), py::arg("serves"), py::arg("group"));
  m.def("join", &Join, Waits());
  m.def("begin_step", &BeginStep, py::arg("guessed") = false);
  m.def("end_step", &EndStep, py::arg("count") = true, py::arg("step") = std::nullopt);
  m.def(
      "end_steps", [] { Process::Get().EndSteps(); }, Waits());
  m.def("expect_strays", &ExpectStrays, py::arg("expected"), Waits());
  m.def("watch_visitor", [] { Process::Get().WatchVisitor(); });
  m.def("begin_away", &BeginAway, Waits());
  m.def("end_away", &EndAway, Waits());
  m.def("declare_constant", &DeclareConstant, py::arg("tensor"), py::arg("name"), Waits());
  m.def("end_constant", &EndConstant, py::arg("address"), Waits());
  m.def("set_stage", &SetStage, py::arg("address"), py::arg("stage"), Waits());
  m.def("await_stage", &AwaitStage, py::arg("stage"), Waits());
  m.attr("last_stage") = kLastStage;
  m.def("join_gang", &JoinGang, py::arg("gang"), py::arg("rank"), py::arg("size"), Waits());
  m.def("leave", &Leave, Waits());
  m.def("forked", [] { return Process::Get().forked(); });
  m.def("info", &Info);
  m.def("holdings", &HoldingsOfDevices);

  KeepThreadsAtTheEnd();
  Process::Get().SetHooks(InterpreterHooks());
  Process::Get().SetStackOfCaller(&PythonStack);
  Process::Get().SetTakeRaised(&TakeRaised);
  Process::Get().SetRaiseSoon(&RaiseSoon);
  Process::Get().SetParkingHook(WaitingInPython());
  py::module_::import("atexit").attr("register")(py::cpp_function(&LeaveAtExit, Waits()));
}
