#include "csrc/emulator/driver/call_time.h"

#include <algorithm>

#include "csrc/emulator/driver/gpu.h"

namespace hocket::emulator {
namespace {

timing::Nanos Now() { return timing::Clock::Monotonic().Now(); }

}  // namespace

CallTime::CallTime() : engine_(Gpu::Get().engine()), costs_(timing::CostModel::Default().calls) {
  if (Counts()) due_ = Now();
}

CallTime::~CallTime() {
  if (Counts()) timing::SleepUntil(due_);
}

void CallTime::Add(const timing::CallCost& cost, Bytes size, double factor) {
  constexpr double kLongest = 1e12;  // whatever the data file says, it is a time
  if (Counts()) due_ += timing::FromMicroseconds(std::min(factor * cost.Microseconds(size), kLongest));
}

bool CallTime::Copies(int device, timing::Engine direction) {
  if (device == kOnHost) device = CurrentContext() == nullptr ? 0 : CurrentContext()->device();
  return engine_->BusyUntil(device, direction) > Now();
}

double CallTime::Factor(int device) {
  return Counts() && Copies(device, timing::Engine::kToHost) ? costs_.beside_copy_factor : 1;
}

void CallTime::Creates(int device, Bytes size) {
  Add(device == kOnHost ? costs_.host_create : costs_.create, size, Factor(device));
}

void CallTime::Maps(int device, Bytes size) { Add(costs_.map, size, Factor(device)); }

void CallTime::LetsReach(int to, const Extent& mapping) {
  if (!Counts()) return;
  if (to == kOnHost) return Add(costs_.host_own_access, mapping.size);
  const timing::Nanos longest = due_ + timing::FromMicroseconds(costs_.access_behind_copy_us);
  while (due_ < longest) {
    const timing::Nanos busy = engine_->BusyUntil(to, timing::Engine::kToHost);
    if (busy <= Now()) break;
    due_ = std::clamp(busy, due_, longest);
    timing::SleepUntil(due_);
  }
  Add(mapping.device == kOnHost ? costs_.host_access : costs_.access, mapping.size);
}

void CallTime::Unmaps(const Extent& mapping) {
  if (mapping.device != kOnHost) {
    Add(costs_.unmap, mapping.size, Factor(mapping.device));
  } else {
    const bool comes_in = Counts() && Copies(kOnHost, timing::Engine::kToDevice);
    Add(costs_.host_unmap, mapping.size,
        comes_in ? costs_.host_unmap_beside_copy_in_factor : Factor(kOnHost));
  }
  Releases(mapping);
}

void CallTime::Releases(const Extent& memory) {
  if (!memory.last) return;
  Add(memory.device == kOnHost ? costs_.host_release : costs_.release, memory.size, Factor(memory.device));
}

void CallTime::Pins(Bytes size, Bytes touched) {
  Add(costs_.pin, size - touched);
  Add(costs_.pin_touched, touched);
}

void CallTime::AllocatesOnHost(Bytes size) { Add(costs_.host_alloc, size); }

}  // namespace hocket::emulator
