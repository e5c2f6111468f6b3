// Linked into every allocator test that uses the emulated GPU: each test leaves the device as it found it.
#include <gtest/gtest.h>

#include "tests/allocator/emulated_gpu.h"

namespace hocket::testing {
namespace {

// Every test leaves the device as it found it.
class LeakWatch : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { before_ = EmulatedGpu::Get().used(); }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    EXPECT_EQ(EmulatedGpu::Get().used(), before_) << "device memory leaked by " << test.name();
  }
  Bytes before_ = 0;
};
const bool watching = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new LeakWatch);
  return true;
}();

}  // namespace
}  // namespace hocket::testing
