// The debug mode that compares what was spilled and restored: it finds what is wrong, and nothing where all
// is right.
#include "allocator/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using ::testing::AllOf;
using testing::EmulatedGpu;
using ::testing::HasSubstr;
using testing::Job;
using testing::kEverything;

class VerifierTest : public ::testing::Test {
 protected:
  // Each mistake ends a process of its own, started anew: the driver's threads would not live on in a fork.
  VerifierTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  EmulatedGpu& gpu = EmulatedGpu::Get();
};

TEST_F(VerifierTest, AJobWhoseBytesAreRightGoesOn) {
  Job job({.verify = true});
  const DevicePtr a = job.Malloc(3_MiB), b = job.Malloc(1_KiB);
  gpu.Fill(a, 3_MiB, 0x11);
  gpu.Fill(b, 1_KiB, 0x22);
  for (int i = 0; i < 2; ++i) {
    job.PassTurn();
    ASSERT_TRUE(job.Spill(kEverything).ok());
    job.TakeTurn();
  }
  EXPECT_TRUE(gpu.Holds(a, 3_MiB, 0x11) && gpu.Holds(b, 1_KiB, 0x22));
  job.Free(a), job.Free(b);
}

TEST_F(VerifierTest, ACopyToTheDeviceThatDoesNotArriveIsFound) {
  const auto lose_a_copy = [this] {
    Job job({.verify = true});
    gpu.Fill(job.Malloc(1_KiB), 1_KiB, 0x22);
    job.PassTurn();
    HOCKET_CHECK(job.Spill(kEverything).ok()) << "no spill";
    gpu.SkipEvery("MemcpyHtoDAsync");
    job.TakeTurn();
  };
  EXPECT_DEATH(lose_a_copy(), AllOf(HasSubstr("HOCKET_VERIFY: from 0x"),
                                    HasSubstr("of a live range of 1024 are not those that were copied back"),
                                    HasSubstr("0x22 on the host")));
}

TEST_F(VerifierTest, AWriteIntoConstantMemoryIsFoundBeforeItIsLost) {
  const auto write = [this](bool declared) {
    Job job({.verify = true});
    const DevicePtr others = job.Malloc(1_KiB), weights = job.Malloc(5_MiB);
    gpu.Fill(others, 1_KiB, 0x11), gpu.Fill(weights, 5_MiB, 0x22);
    const auto promise = std::make_shared<Promise>(Promise{.name = "backbone.weight"});
    HOCKET_CHECK(!declared || job.allocator->DeclareConstant(weights, promise).ok()) << "not declared";
    for (int i = 0; i < 2; ++i) {
      job.PassTurn();
      HOCKET_CHECK(job.Spill(kEverything).ok()) << "no spill";
      job.TakeTurn();
      gpu.Fill(others, 1_KiB, 0x33), gpu.Fill(weights + 3_MiB, 1, 0x44);
    }
    job.Free(others), job.Free(weights);
  };
  write(/*declared=*/false);
  EXPECT_DEATH(
      write(/*declared=*/true),
      AllOf(HasSubstr("on, bytes changed that were declared constant: backbone.weight, 5242880 bytes"),
            HasSubstr("(0x22 on the host, 0x44 on the device)"),
            HasSubstr("take it back before: hocket.constant")));
}

// A chunk's bytes on the device and their copy on the host, all 0x33.
class CopyTest : public VerifierTest {
 protected:
  CopyTest() {
    gpu.Fill(base, kSize, 0x33);
    copy.memory = *host.Allocate(kSize / 2);
    copy.extents = {{.offset = kSize / 4, .size = kSize / 4}, {.offset = kSize / 2, .size = kSize / 4}};
    std::fill_n(copy.memory.data(), kSize / 2, std::byte{0x33});
  }
  ~CopyTest() override { job.Free(base); }

  static constexpr Bytes kSize = 1_MiB;
  Job job;
  const DevicePtr base = job.Malloc(kSize);
  HostMemory host{gpu.driver(), 1_GiB};
  HostCopy copy;
  Verifier verifier{gpu.driver(), nullptr, [](DevicePtr) { return "the weights"; }};
};

TEST_F(CopyTest, WhatIsTheSameIsLetPass) {
  ASSERT_TRUE(verifier.Spilled(base, copy).ok());
  gpu.Fill(base, kSize / 4, 0);  // in no extent
  verifier.Restoring(base, copy);
  EXPECT_TRUE(verifier.Restored(base, copy).ok());
}

TEST_F(CopyTest, AByteWrittenWhileItWasSpilledIsNamed) {
  gpu.Fill(base + kSize / 2 + 7, 1, 0x44);
  EXPECT_DEATH(
      (void)verifier.Spilled(base, copy),
      AllOf(HasSubstr("changed on the device while they were copied"), HasSubstr("0x44 on the device")));
}

TEST_F(CopyTest, WhatIsKeptAndTheSameIsLetPass) {
  ASSERT_TRUE(verifier.Spilled(base, copy).ok());
  gpu.Fill(base, kSize / 4, 0);  // in no extent
  EXPECT_TRUE(verifier.Kept(base, copy).ok());
}

TEST_F(CopyTest, ABitThatFlipsInWhatIsKeptIsFound) {
  ASSERT_TRUE(verifier.Spilled(base, copy).ok());
  copy.memory.data()[0] ^= std::byte{1};
  EXPECT_DEATH((void)verifier.Kept(base, copy), HasSubstr("changed in host memory"));
}

TEST_F(CopyTest, ABitThatFlipsInHostMemoryIsFound) {
  ASSERT_TRUE(verifier.Spilled(base, copy).ok());
  copy.memory.data()[kSize / 2 - 1] ^= std::byte{1};
  EXPECT_DEATH(verifier.Restoring(base, copy), HasSubstr("changed in host memory while they were spilled"));
}

}  // namespace
}  // namespace hocket
