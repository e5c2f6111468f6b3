#include "csrc/emulator/timing/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

namespace hocket::emulator::timing {
namespace {

using testing::HasSubstr;

TEST(CostTest, ACopyTakesItsBytesByTheRateOfItsLink) {
  const CostModel& model = CostModel::Default();
  EXPECT_NEAR(model.CopyMicroseconds(Engine::kToDevice, 1_GiB), 19'371, 1);
  EXPECT_NEAR(model.CopyMicroseconds(Engine::kToHost, 1_GiB), 19'501, 1);
  EXPECT_LT(model.CopyMicroseconds(1_GiB), 500) << "within the device";
}

TEST(CostTest, NothingIsShorterThanTheShortestKernel) {
  const CostModel& model = CostModel::Default();
  EXPECT_EQ(model.KernelMicroseconds("fill", {.bytes = 4}), model.shortest_us);
  EXPECT_EQ(model.ProductMicroseconds(2, 4), model.shortest_us);
  EXPECT_EQ(model.CopyMicroseconds(Engine::kToHost, 4), model.shortest_us);
}

TEST(CostTest, ShorterElementsMultiplyFaster) {
  const CostModel& model = CostModel::Default();
  EXPECT_LT(model.ProductMicroseconds(1e12, 2), model.ProductMicroseconds(1e12, 4));
}

TEST(CostTest, AMeasuredKernelReplacesTheEstimate) {
  const auto model = CostModel::Parse(
      "# measured\n"
      "kernel elementwise 4.5   # us\n"
      "\n"
      "rate shortest_us 2\n");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->KernelMicroseconds("void vectorized_elementwise_kernel<4>", {.bytes = 1e9}), 4.5);
  EXPECT_EQ(model->KernelMicroseconds("reduce", {}), 2);
}

TEST(CostTest, AClassThatMovesBytesHasTheMemorysRateUntilOneOfItsOwnIsMeasured) {
  const KernelWork work = {.of = OperatorClass::kReduction, .bytes = 1e9};
  const auto older = CostModel::Parse("rate memory_bytes_per_us 4e6");
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->KernelMicroseconds("aten::sum", work), 250);
  const auto measured = CostModel::Parse("rate memory_bytes_per_us 4e6\nrate reduction_bytes_per_us 2e6");
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->KernelMicroseconds("aten::sum", work), 500);
  EXPECT_EQ(measured->KernelMicroseconds("other", {.bytes = 1e9}), 250);
}

TEST(CostTest, OperationsOrBytesDecideWhicheverTakeLonger) {
  const auto model = CostModel::Parse(
      "rate memory_bytes_per_us 1e6\nrate convolution_operations_per_us_2_bytes 5e8\n"
      "rate attention_operations_per_us_4_bytes 2e7\nrate operations_per_us_8_bytes 1e7\n");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto us = [&](OperatorClass of, double bytes, int element) {
    return model->KernelMicroseconds("one", {of, bytes, 1e11, element});
  };
  EXPECT_EQ(us(OperatorClass::kConvolution, 1e6, 2), 200);
  EXPECT_EQ(us(OperatorClass::kConvolution, 1e9, 2), 1000);
  EXPECT_EQ(us(OperatorClass::kAttention, 1e6, 4), 5000);
  EXPECT_EQ(us(OperatorClass::kConvolution, 1e6, 8), 10000) << "as a matrix product";
}

TEST(CostTest, ADevicesOwnSettingsStandBesideItsRates) {
  const auto model = CostModel::Parse("setting TEARDOWN_MS 85\nrate shortest_us 2\nsetting SLICE_US 1500\n");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->settings, ::testing::ElementsAre(::testing::Pair("SLICE_US", "1500"),
                                                      ::testing::Pair("TEARDOWN_MS", "85")));
}

TEST(CostTest, ACallTakesItsBaseAndItsMiB) {
  const CallCosts& calls = CostModel::Default().calls;
  EXPECT_NEAR(calls.create.Microseconds(4_MiB), 19, 0.1);
  EXPECT_NEAR(calls.release.Microseconds(64_MiB), 53, 0.1);
  EXPECT_NEAR(calls.host_create.Microseconds(16_MiB), 3860, 1);
  EXPECT_NEAR(calls.host_access.Microseconds(16_MiB), 247, 1);
}

TEST(CostTest, AMeasuredCallReplacesTheDefaults) {
  const auto model = CostModel::Parse(
      "call create_us 11\ncall create_us_per_mib 0\ncall host_own_access_us_per_mib 20.5\n"
      "call access_behind_copy_us 500\ncall beside_copy_factor 2\n"
      "call host_unmap_beside_copy_in_factor 3\n");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->calls.create.Microseconds(64_MiB), 11);
  EXPECT_EQ(model->calls.host_own_access.us_per_mib, 20.5);
  EXPECT_EQ(model->calls.host_own_access.us, CallCosts().host_own_access.us);
  EXPECT_EQ(model->calls.access_behind_copy_us, 500);
  EXPECT_EQ(model->calls.beside_copy_factor, 2);
  EXPECT_EQ(model->calls.host_unmap_beside_copy_in_factor, 3);
}

TEST(CostTest, ABadRowIsNamedWithItsLine) {
  const auto message = [](const char* text) {
    return std::string(CostModel::Parse(text).status().message());
  };
  EXPECT_THAT(message("\nkernel gemm"), HasSubstr("line 2 of the costs, 'kernel gemm': wanted"));
  EXPECT_THAT(message("rate speed 3"), HasSubstr("no rate is called 'speed'"));
  EXPECT_THAT(message("rate gather_bytes_per_us 0"), HasSubstr("0 is not a number from 1e-06 to 1e+15"));
  EXPECT_THAT(message("rate shortest_us -1"), HasSubstr("-1 is not a number from"));
  EXPECT_THAT(message("rate shortest_us 1e300"), HasSubstr("1e+300 is not a number from"));
  EXPECT_THAT(message("rate shortest_us nan"), HasSubstr("nan is not a number from"));
  EXPECT_THAT(message("rate convolution_bytes_per_us 3"), HasSubstr("no rate is called"));
  EXPECT_THAT(message("kernel gemm -1"), HasSubstr("-1 is not a number above 0"));
  EXPECT_THAT(message("kernel gemm nan"), HasSubstr("nan is not a number above 0"));
  EXPECT_THAT(message("setting MEMORY 1"), HasSubstr("no setting is called 'MEMORY'"));
  EXPECT_THAT(message("setting SLICE_US 1.5"), HasSubstr("1.5 is not a whole number"));
  EXPECT_THAT(message("setting SLICE_US -1"), HasSubstr("-1 is not a whole number"));
  EXPECT_THAT(message("call create 3"), HasSubstr("no call has a 'create'"));
  EXPECT_THAT(message("call copy_us 3"), HasSubstr("no call has a 'copy_us'"));
  EXPECT_THAT(message("call beside_copy_factor_us 3"), HasSubstr("no call has a"));
  EXPECT_THAT(message("call map_us -1"), HasSubstr("-1 is not a number from 0 to"));
  EXPECT_THAT(message("call map_us_per_mib nan"), HasSubstr("nan is not a number from 0 to"));
  EXPECT_THAT(message("call map_us inf"), HasSubstr("inf is not a number from 0 to"));
  EXPECT_THAT(message("call map_us"), HasSubstr("'call NAME NUMBER'"));
  EXPECT_THAT(message("colour red 1"), HasSubstr("unknown row 'colour'"));
}

// In a process of its own: the model is read once.
TEST(CostDeathTest, AFileInTheEnvironmentChangesTheModel) {
  const std::string file = ::testing::TempDir() + "/costs";
  std::ofstream(file) << "rate copy_in_bytes_per_us 1000\n";
  const auto microseconds = [&](const char* named) {
    setenv("HOCKET_EMULATOR_COSTS", named, 1);
    const double us = CostModel::Default().CopyMicroseconds(Engine::kToDevice, 1'000'000);
    std::cerr << "takes " << us << " us";
    _exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(microseconds(file.c_str()), ::testing::ExitedWithCode(0), "takes 1000 us");
  EXPECT_DEATH(microseconds("/nonexistent/costs"), "HOCKET_EMULATOR_COSTS names /nonexistent/costs");
}

TEST(CostTest, TimesAreRoundedToTheNanosecond) {
  EXPECT_EQ(FromMicroseconds(3), 3000);
  EXPECT_EQ(FromMicroseconds(0.0001), 1);
}

}  // namespace
}  // namespace hocket::emulator::timing
