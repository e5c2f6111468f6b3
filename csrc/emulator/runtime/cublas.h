// cuBLAS's declarations, without the headers of its half types: nothing here looks into one, and those
// headers include <nv/target>, which the wheels of torch 2.11 do not bring.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_CUBLAS_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_CUBLAS_H_

// NOLINTBEGIN(bugprone-reserved-identifier): these are the vendor's names.
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
struct __half;
struct __nv_bfloat16;
// NOLINTEND(bugprone-reserved-identifier)

#include <cublasLt.h>
#include <cublas_v2.h>

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_CUBLAS_H_
