// Devices, contexts, names of errors, and functions found by name.
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/driver_functions.h"
#include "tests/emulator/own_device.h"

namespace hocket {
namespace {

using namespace hocket::cuda;  // NOLINT: the driver's functions
using testing::HasSubstr;

TEST(DevicesTest, CallsBeforeInitAreRefused) {
  int count = 0;
  // ctest gives each test a process of its own, where this is never so.
  if (cuDeviceGetCount(&count) == kSuccess) GTEST_SKIP() << "another test of this process came first";
  EXPECT_EQ(cuDeviceGetCount(&count), kNotInitialized);
  int version = 0;
  EXPECT_EQ(cuDriverGetVersion(&version), kSuccess);
  EXPECT_EQ(version, 13000);
}

TEST(DevicesTest, TheDeviceSaysThatItIsEmulated) {
  ASSERT_EQ(UseDevice(), kSuccess);
  char name[64];
  ASSERT_EQ(cuDeviceGetName(name, sizeof(name), 0), kSuccess);
  EXPECT_THAT(name, HasSubstr("emulated"));
}

TEST(DevicesTest, MemoryIsWhatTheEnvironmentSays) {
  ASSERT_EQ(UseDevice(), kSuccess);
  std::size_t total = 0;
  ASSERT_EQ(cuDeviceTotalMem_v2(&total, 0), kSuccess);
  EXPECT_EQ(total, 64_MiB);
}

TEST(DevicesTest, AnUnknownDeviceIsRefused) {
  ASSERT_EQ(UseDevice(), kSuccess);
  Device device;
  EXPECT_EQ(cuDeviceGet(&device, 1), kInvalidDevice);
  EXPECT_EQ(cuDeviceGet(&device, -1), kInvalidDevice);
}

TEST(DevicesTest, UuidsAreStableAndDifferByDevice) {
  ASSERT_EQ(UseDevice(), kSuccess);
  Uuid first, again;
  ASSERT_EQ(cuDeviceGetUuid_v2(&first, 0), kSuccess);
  ASSERT_EQ(cuDeviceGetUuid_v2(&again, 0), kSuccess);
  EXPECT_EQ(std::memcmp(first.bytes, again.bytes, sizeof(first.bytes)), 0);
}

TEST(DevicesTest, ContextsArePushedAndPopped) {
  ASSERT_EQ(UseDevice(), kSuccess);
  Context context = nullptr, popped = nullptr, current = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), kSuccess);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), kSuccess);
  EXPECT_EQ(cuCtxPopCurrent_v2(&popped), kInvalidContext);
  ASSERT_EQ(cuCtxPushCurrent_v2(context), kSuccess);
  ASSERT_EQ(cuCtxPopCurrent_v2(&popped), kSuccess);
  EXPECT_EQ(popped, context);
  ASSERT_EQ(cuCtxGetCurrent(&current), kSuccess);
  EXPECT_EQ(current, nullptr);
}

TEST(DevicesTest, CallsThatNeedAContextSayWhenThereIsNone) {
  ASSERT_EQ(UseDevice(), kSuccess);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), kSuccess);
  std::size_t free, total;
  Event event;
  EXPECT_EQ(cuMemGetInfo_v2(&free, &total), kInvalidContext);
  EXPECT_EQ(cuCtxSynchronize(), kInvalidContext);
  EXPECT_EQ(cuEventCreate(&event, 0), kInvalidContext);
}

TEST(DevicesTest, ErrorsHaveTheVendorsNamesAndTexts) {
  const char* text = nullptr;
  ASSERT_EQ(cuGetErrorName(kOutOfMemory, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(cuGetErrorString(kOutOfMemory, &text), kSuccess);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(12345, &text), kInvalidValue);
  EXPECT_EQ(text, nullptr);
}

TEST(DevicesTest, FunctionsAreFoundInTheVersionThatTheHeaderChooses) {
  void* found = nullptr;
  int status = -1;
  ASSERT_EQ(cuGetProcAddress_v2("cuMemGetInfo", &found, 13000, 0, &status), kSuccess);
  EXPECT_EQ(found, reinterpret_cast<void*>(&cuMemGetInfo_v2));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cuGetProcAddress_v2("cuNoSuchFunction", &found, 13000, 0, &status), kNotFound);
  EXPECT_EQ(found, nullptr);
  EXPECT_EQ(status, 1);
}

TEST(DevicesTest, AFunctionThatNobodyImplementsSaysItsNameOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuLinkComplete(), kNotSupported);
  EXPECT_EQ(cuLinkComplete(), kNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cuLinkComplete"));
  EXPECT_EQ(said.find("cuLinkComplete"), said.rfind("cuLinkComplete"));
}

}  // namespace
}  // namespace hocket
