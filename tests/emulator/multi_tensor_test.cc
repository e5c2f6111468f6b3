#include "csrc/emulator/runtime/multi_tensor.h"

#include <gtest/gtest.h>

#include <string>

namespace hocket::emulator {
namespace {

constexpr double kElements = 65536;

// As nvcc mangles it, less the parameters.
std::string Kernel(const std::string& metadata, const std::string& functor) {
  return "_ZN2at6native12_GLOBAL__N__L25multi_tensor_apply_kernelINS1_" + metadata + "EENS1_" + functor +
         "EvT_T0_DpT1_";
}

TEST(MultiTensorTest, InPlaceTheListsAreReadAndOneIsWritten) {
  const auto one =
      Kernel("18TensorListMetadataILi1E", "21BinaryOpScalarFunctorIfLi1ELi1ELi0EEEJSt10multipliesIfEfEE");
  EXPECT_EQ(MultiTensorBytesPerBlock(one.c_str()), kElements * 4 * 2);
  const auto three =
      Kernel("18TensorListMetadataILi3E", "22PointwiseOpScalarFunctorIfLi3ELi3ELi0EEEJSt7dividesIfEfEE");
  EXPECT_EQ(MultiTensorBytesPerBlock(three.c_str()), kElements * 4 * 4);
}

TEST(MultiTensorTest, AListThatIsOnlyWrittenIsNotRead) {
  const auto out = Kernel("18TensorListMetadataILi2E", "14UnaryOpFunctorIfLi2ELi1ELi1EEEJNS0_4SqrtIfEEEE");
  EXPECT_EQ(MultiTensorBytesPerBlock(out.c_str()), kElements * 4 * 2);
}

TEST(MultiTensorTest, ElementsHaveTheirSizes) {
  const auto bytes = [](const std::string& type) {
    return *MultiTensorBytesPerBlock(
        Kernel("18TensorListMetadataILi1E", "14UnaryOpFunctorI" + type + "Li1ELi1ELi0EEEJNS0_3AbsE").c_str());
  };
  EXPECT_EQ(bytes("N3c104HalfE"), kElements * 2 * 2);
  EXPECT_EQ(bytes("N3c108BFloat16E"), kElements * 2 * 2);
  EXPECT_EQ(bytes("N3c107complexIdEE"), kElements * 16 * 2);
  EXPECT_EQ(bytes("d"), kElements * 8 * 2);
  EXPECT_EQ(bytes("b"), kElements * 2);
  EXPECT_EQ(bytes("S4_"), kElements * 4 * 2) << "not spelt out";
}

TEST(MultiTensorTest, ANormIsOnlyRead) {
  const auto norm =
      Kernel("18TensorListMetadataILi1E", "13LpNormFunctorIfLNS0_8NormTypeE1EfLi1ELi1ELi0EEEJPfPKlEE");
  EXPECT_EQ(MultiTensorBytesPerBlock(norm.c_str()), kElements * 4);
}

TEST(MultiTensorTest, AFusedOptimizerWritesAllButTheGradients) {
  const auto adam = Kernel("32FusedOptimizerTensorListMetadataILi4E",
                           "20FusedAdamMathFunctorIfLi4ELNS0_9ADAM_MODEE0ELb0EEEJPKfdddddbS9_S9_EE");
  EXPECT_EQ(MultiTensorBytesPerBlock(adam.c_str()), kElements * 4 * 7);
}

TEST(MultiTensorTest, ListsOfScalarsBesideTheTensorsAreNoLists) {
  const auto scalars = Kernel("28TensorListScalarListMetadataIN3c107complexIdEELi3E",
                              "29PointwiseOpScalarListFunctorIN3c107complexIdEELi3ELi3ELi0EEEJSt7dividesE");
  EXPECT_EQ(MultiTensorBytesPerBlock(scalars.c_str()), kElements * 16 * 4);
}

TEST(MultiTensorTest, OtherKernelsAreNotItsBusiness) {
  EXPECT_EQ(MultiTensorBytesPerBlock("_ZN2at6native29vectorized_elementwise_kernelILi4E"), std::nullopt);
  EXPECT_EQ(MultiTensorBytesPerBlock("(unregistered kernel)"), std::nullopt);
  EXPECT_EQ(MultiTensorBytesPerBlock("multi_tensor_apply_kernel"), std::nullopt);
}

}  // namespace
}  // namespace hocket::emulator
