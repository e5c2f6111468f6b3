// Coordinators that see each other.
#include "csrc/wire/sign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace hocket::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> DevicesOf(const CoordinatorSeen& self) {
  std::vector<std::string> devices;
  for (const CoordinatorSeen& seen : CoordinatorsSeen()) {
    if (seen.uid == self.uid && seen.pid == self.pid && seen.epoch == self.epoch)
      devices.push_back(seen.device);
  }
  return devices;
}

TEST(SignTest, ItIsSeenAsLongAsTheDeviceIsShown) {
  const CoordinatorSeen self{.uid = 7, .pid = getpid(), .epoch = 1};
  {
    Signs signs;
    signs.Show(self, {"GPU-1", "GPU-2", "cpu"});
    EXPECT_THAT(DevicesOf(self), ElementsAre("GPU-1", "GPU-2"));
    signs.Show(self, {"GPU-2"});
    EXPECT_THAT(DevicesOf(self), ElementsAre("GPU-2"));
  }
  EXPECT_THAT(DevicesOf(self), IsEmpty());
}

TEST(SignTest, TwoOfOneDeviceAreTwo) {
  const CoordinatorSeen a{.uid = 7, .pid = getpid(), .epoch = 2}, b{.uid = 8, .pid = getpid(), .epoch = 3};
  Signs as, bs;
  as.Show(a, {"GPU-1"});
  bs.Show(b, {"GPU-1"});
  EXPECT_THAT(DevicesOf(a), ElementsAre("GPU-1"));
  EXPECT_THAT(DevicesOf(b), ElementsAre("GPU-1"));
}

TEST(SignTest, ADeviceWithANameTooLongHasNone) {
  const CoordinatorSeen self{.uid = 7, .pid = getpid(), .epoch = 4};
  Signs signs;
  signs.Show(self, {std::string(120, 'x')});
  EXPECT_THAT(DevicesOf(self), IsEmpty());
}

TEST(SignTest, WhatSomebodyElseHasWrittenIsReadWithCare) {
  const std::string before = "0000000000000000: 00000002 00000000 00000000 0002 01 12345 ";
  EXPECT_THAT(CoordinatorsIn(before + "@hocketd 1 2 3 GPU-x\n"),
              ElementsAre(CoordinatorSeen{.uid = 1, .pid = 2, .epoch = 3, .device = "GPU-x"}));
  for (const char* wrong : {"@hocketd 1 2 3", "@hocketd 1 2 3 a b", "@hocketd -1 2 3 x",
                            "@hocketd 1 2 3 \x1b[2J", "@hocketd", "/tmp/@hocketd 1 2 3 x", "@hocketd 1 2 3 "})
    EXPECT_THAT(CoordinatorsIn(before + wrong + "\n"), IsEmpty()) << wrong;
  EXPECT_THAT(CoordinatorsIn(""), IsEmpty());
}

}  // namespace
}  // namespace hocket::wire
