#include "csrc/emulator/runtime/elementwise.h"

#include <gtest/gtest.h>

#include <string>

namespace hocket::emulator {
namespace {

// As nvcc mangles it, less the parameters.
double Bytes(const std::string& functor, int tensors) {
  const std::string name = "_ZN2at6native29vectorized_elementwise_kernelILi4E" + functor + "St5arrayIPcLm" +
                           std::to_string(tensors) + "EELb0EEEviT0_T1_";
  return ElementwiseBytesPerElement(name.c_str()).value_or(0);
}

TEST(ElementwiseTest, EachTensorIsReadOrWrittenOnce) {
  EXPECT_EQ(Bytes("NS0_15CUDAFunctor_addIfEE", 3), 12);
  EXPECT_EQ(Bytes("NS0_11FillFunctorIfEE", 1), 4);
}

TEST(ElementwiseTest, ElementsHaveTheirSizes) {
  EXPECT_EQ(Bytes("NS0_15CUDAFunctor_addIdEE", 3), 24);
  EXPECT_EQ(Bytes("NS0_13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_15binary_internal10MulFunctorIfEEEE", 3), 6);
  EXPECT_EQ(Bytes("NS0_13AUnaryFunctorIN3c104HalfES4_S4_NS0_15binary_internal10MulFunctorIfEEEE", 2), 4);
  EXPECT_EQ(Bytes("NS0_11FillFunctorIN3c1011Float8_e5m2EEE", 1), 1);
  EXPECT_EQ(Bytes("NS0_11FillFunctorIN3c107complexIfEEEE", 1), 8);
}

TEST(ElementwiseTest, ALambdasParameterIsAnElement) {
  const std::string copy =
      "ZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE_clEv";
  EXPECT_EQ(Bytes(copy + "EUlhE_", 2), 2);
  EXPECT_EQ(Bytes(copy + "EUldE_", 2), 16);
  EXPECT_EQ(Bytes(copy + "EUlN3c108BFloat16EE_", 2), 4);
  EXPECT_EQ(Bytes("ZZZNS0_17where_kernel_implERNS_14TensorIteratorEENKUlvE_clEvENKUlvE_clEvEUlbffE_", 4), 16)
      << "the condition comes first";
}

TEST(ElementwiseTest, AWrappedLambdaSaysItsTypes) {
  EXPECT_EQ(
      Bytes("18__nv_hdl_wrapper_tILb0ELb1ELb0E11__nv_dl_tagIPFvRNS_18TensorIteratorBaseENS0_8GeluTypeEEXadL_"
            "ZNS0_18GeluCUDAKernelImplES5_S6_EELj1EEFddEJEE",
            2),
      16);
}

TEST(ElementwiseTest, WhatTheNameDoesNotSayIsAResultAndAnOperandOfFourBytes) {
  EXPECT_EQ(ElementwiseBytesPerElement("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_impl"),
            8);
}

TEST(ElementwiseTest, OtherKernelsAreNotItsBusiness) {
  for (const char* name : {"_ZN2at6native24index_elementwise_kernelILi128ELi4E",
                           "_ZN2at6native34_scatter_gather_elementwise_kernelILi128E",
                           "_ZN2at6native13reduce_kernelILi512ELi1E", "(unregistered kernel)"}) {
    EXPECT_EQ(ElementwiseBytesPerElement(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace hocket::emulator
