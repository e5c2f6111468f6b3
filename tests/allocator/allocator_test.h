// What tests of the allocator share that run on the emulated device.
#ifndef HOCKET_TESTS_ALLOCATOR_ALLOCATOR_TEST_H_
#define HOCKET_TESTS_ALLOCATOR_ALLOCATOR_TEST_H_

#include <gtest/gtest.h>

#include "tests/allocator/emulated_gpu.h"

namespace hocket::testing {

class AllocatorTest : public ::testing::Test {
 protected:
  EmulatedGpu& gpu = EmulatedGpu::Get();
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_ALLOCATOR_TEST_H_
