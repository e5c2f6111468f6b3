#include "csrc/client/parking.h"

#include <algorithm>
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

// Seen twice, a second apart, it is worth a look. On a thread of its own, which may have to wait long for the
// interpreter's lock.
void ClientImpl::LookForParked() {
  if (parker_ && !parker_is_done_.load(std::memory_order_acquire)) return;
  if (parker_) parker_->join();
  parker_.reset();
  {
    MutexLock lock(&mutex_);
    const std::uint64_t turns = progress_.turns();
    if (!MayPark() || std::exchange(turns_when_idle_, turns) != turns) return;
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

// The agent says with its next report that the job can be moved.
bool ClientImpl::Park(IsWaiting is_waiting) {
  bool parks = false;
  threads_.WithAll([&](const std::vector<ThreadRecord*>& records) {
    MutexLock lock(&mutex_);
    if (!MayPark()) return;
    std::vector<ThreadRecord*> in_own_code;
    for (ThreadRecord* const record : records) {
      if (!record->helper && !record->away && record->door == nullptr) in_own_code.push_back(record);
    }
    parks = std::all_of(in_own_code.begin(), in_own_code.end(),
                        [&](const ThreadRecord* record) { return is_waiting(record->thread); });
    if (!parks) return;
    for (ThreadRecord* const record : in_own_code) record->away = record->parked = true;
    at_doors_.threads += static_cast<int>(in_own_code.size());
    parked_ += static_cast<int>(in_own_code.size());
  });
  return parks;
}

}  // namespace hocket
