// Threads of the program that wait, in a place from which they cannot go on to use the device without passing
// a door first: they count as away, though they have not said so.
//
// What such a place is only the program's language knows (csrc/bindings/waiting.h).
#ifndef HOCKET_CSRC_CLIENT_PARKING_H_
#define HOCKET_CSRC_CLIENT_PARKING_H_

#include <pthread.h>

#include <functional>

#include "absl/functional/function_ref.h"

namespace hocket {

// Whether that thread waits in such a place.
using IsWaiting = absl::FunctionRef<bool(pthread_t)>;

// Calls `park`, or does not; while it does, no thread of which it says that it waits goes on. May take its
// time. On a thread of its own.
using ParkingHook = std::function<void(absl::FunctionRef<void(IsWaiting)> park)>;
void SetParkingHook(ParkingHook hook);

bool HasParkingHook();
void CallParkingHook(absl::FunctionRef<void(IsWaiting)> park);

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_PARKING_H_
