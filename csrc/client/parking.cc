#include "csrc/client/parking.h"

#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "csrc/client/client_impl.h"
#include "csrc/client/mutex.h"

namespace hocket {
namespace {

struct Hook {
  Mutex mutex;
  std::shared_ptr<const ParkingHook> hook ABSL_GUARDED_BY(mutex);
};

// Never destroyed: agents run while the process ends.
Hook& TheHook() {
  static Hook* const hook = new Hook;
  return *hook;
}

std::shared_ptr<const ParkingHook> Current() {
  MutexLock lock(&TheHook().mutex);
  return TheHook().hook;
}

}  // namespace

void SetParkingHook(ParkingHook hook) {
  auto shared = hook ? std::make_shared<const ParkingHook>(std::move(hook)) : nullptr;
  MutexLock lock(&TheHook().mutex);
  TheHook().hook = std::move(shared);
}

bool HasParkingHook() { return Current() != nullptr; }

void CallParkingHook(absl::FunctionRef<void(IsWaiting)> park) {
  if (const auto hook = Current()) (*hook)(park);
}

// A gang's ranks wait for each other by libraries whose own threads may be about to use the device.
bool ClientImpl::MayPark() const {
  return phase_ <= Phase::kAsked && !outside_ && !spilling_ && Count(word_.Load()) == 0 &&
         facts_.gang.empty() && progress_.turns() > 0 && !AllAtDoors();
}

// On a thread of its own, which may have to wait long for the interpreter's lock.
void ClientImpl::LookForParked() {
  if (parker_ && !parker_is_done_.load(std::memory_order_acquire)) return;
  if (parker_) parker_->join();
  parker_.reset();
  {
    MutexLock lock(&mutex_);
    if (!MayPark()) return;
  }
  if (!HasParkingHook()) return;
  parker_is_done_ = false;
  try {
    parker_ = std::make_unique<std::thread>([this] {
      CallParkingHook([this](IsWaiting is_waiting) { Park(is_waiting); });
      parker_is_done_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error&) {  // no more threads: another time
  }
}

absl::Status ClientImpl::EndParked() {
  ThreadRecord* const me = in_child_.load() ? nullptr : threads_.Seen();
  if (me == nullptr || !me->parked) return absl::OkStatus();
  return ReturnFromAway(*me, /*returns=*/false);
}

// The agent says with its next report if the job can be moved now. Whoever does not wait may come to a door
// later, or stand for somebody who does (one of autograd's).
int ClientImpl::Park(IsWaiting is_waiting) {
  int parked = 0;
  threads_.WithAll([&](const std::vector<ThreadRecord*>& records) {
    MutexLock lock(&mutex_);
    if (!MayPark()) return;
    for (ThreadRecord* const record : records) {
      if (record->helper || record->away || record->door != nullptr || !is_waiting(record->thread)) continue;
      record->away = record->parked = true;
      ++at_doors_.threads;
      ++parked_;
      ++parked;
    }
  });
  return parked;
}

}  // namespace hocket
