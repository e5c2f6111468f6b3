// Where the survivors of a repeating step lie, and when they are away.
//
// A survivor that is freed in the next step (a gradient, where the loop zeroes them first) leaves its home in
// persistent memory empty until it is born again. That is when activations pile up: so transient blocks whose
// whole life lies in between lodge there (ChooseLodgers(), packing.h), and the survivor finds its home empty
// again when it comes.
//
//   address ^ | old |    lodger     |    new    |      old: born in the step before
//           | | old | lodger |         new      |
//           | |         old          |/// new ///      (kept until the next one is there: it has two homes,
//           | |/////    lodger     /////|  new  |       and all homes may differ in every second step)
//           +-----------------------------------> time of the step
//
// Knows only numbers. Not thread-safe.
#ifndef HOCKET_ALLOCATOR_HOMES_H_
#define HOCKET_ALLOCATOR_HOMES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "allocator/alignment.h"
#include "allocator/extents.h"
#include "allocator/packing.h"

namespace hocket {

// One address in the even steps, one in the odd ones.
using EvenAndOdd = std::array<DevicePtr, 2>;

class Homes {
 public:
  struct Home {
    std::uint32_t entry = 0;  // of the step
    std::uint32_t left = 0;   // when the one of the step before is freed
    EvenAndOdd address = {};
  };

  // `homes` as two steps in a row have had them, the even one first. Beside them `empty` is empty all the
  // time, and `taken` belongs to others. nullopt: what lives at the same time would overlap if the steps went
  // on like these two, or like the second alone.
  static std::optional<Homes> Of(const std::vector<StepEntry>& step, std::vector<Home> homes,
                                 const std::vector<Extent>& empty, const std::vector<Extent>& taken);

  const std::vector<Home>& homes() const { return homes_; }
  // What lodgers can have in the even and in the odd steps.
  const std::array<Room, 2>& rooms() const { return rooms_; }
  // Whether the step that begins is an odd one: `is_there` says of which survivors the step before has left
  // at an address.
  bool IsOdd(absl::FunctionRef<bool(DevicePtr)> is_there) const;

 private:
  Homes(const std::vector<StepEntry>& step, std::vector<Home> homes, const std::vector<Extent>& empty);
  bool Fit(const std::vector<StepEntry>& step, const std::vector<Extent>& taken) const;

  std::vector<Home> homes_;
  std::array<Room, 2> rooms_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_HOMES_H_
