// cuBLAS: handles in both modes; matrix products by their operations in timing mode, refused in values mode
// (no operator that computes there reaches them).
#include "csrc/emulator/runtime/blas.h"

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/call.h"
#include "csrc/emulator/runtime/costs.h"
#include "csrc/emulator/runtime/cublas.h"
#include "csrc/emulator/runtime/refusal.h"

namespace hocket::emulator {

void TakeTime(const void* handle, const char* function, double microseconds) {
  const cudaStream_t stream = handle != nullptr ? static_cast<const LibraryHandle*>(handle)->stream : nullptr;
  hocket_emulator_launch(stream, function, microseconds);
}

int ElementBytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
    case CUDA_C_64F:
      return 8;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    default:
      return 4;
  }
}

namespace {

struct Product {
  double m, n, k;
  double batches = 1;
  int element_bytes = 4;
  bool is_complex = false;
};

cublasStatus_t Multiply(const void* handle, const char* function, const Product& p) {
  if (!hocket_emulator_is_timing())
    return static_cast<cublasStatus_t>(hocket_emulator_refuse(function, handle));
  const double operations = (p.is_complex ? 8 : 2) * p.m * p.n * p.k * p.batches;
  TakeTime(handle, function, ProductMicroseconds(operations, p.element_bytes));
  return CUBLAS_STATUS_SUCCESS;
}

bool IsComplex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

}  // namespace
}  // namespace hocket::emulator

using hocket::emulator::ElementBytes;
using hocket::emulator::IsComplex;
using hocket::emulator::LibraryHandle;
using hocket::emulator::Multiply;

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new LibraryHandle);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete reinterpret_cast<LibraryHandle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<LibraryHandle*>(handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) {
  return CUBLAS_STATUS_SUCCESS;
}

// The typed products: a letter, the type of its elements, bytes of one, whether it is complex.
#define HOCKET_TYPED_PRODUCTS(L, T, BYTES, COMPLEX)                                                          \
  HOCKET_RUNTIME_EXPORT cublasStatus_t cublas##L##gemm_v2(cublasHandle_t handle, cublasOperation_t,          \
                                                          cublasOperation_t, int m, int n, int k, const T*,  \
                                                          const T*, int, const T*, int, const T*, T*, int) { \
    return Multiply(handle, "cublas" #L "gemm", {double(m), double(n), double(k), 1, BYTES, COMPLEX});       \
  }                                                                                                          \
  HOCKET_RUNTIME_EXPORT cublasStatus_t cublas##L##gemmStridedBatched(                                        \
      cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T*, const T*,  \
      int, long long, const T*, int, long long, const T*, T*, int, long long, int count) {                   \
    return Multiply(handle, "cublas" #L "gemmStridedBatched",                                                \
                    {double(m), double(n), double(k), double(count), BYTES, COMPLEX});                       \
  }                                                                                                          \
  HOCKET_RUNTIME_EXPORT cublasStatus_t cublas##L##gemmBatched(                                               \
      cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const T*,            \
      const T* const*, int, const T* const*, int, const T*, T* const*, int, int count) {                     \
    return Multiply(handle, "cublas" #L "gemmBatched",                                                       \
                    {double(m), double(n), double(k), double(count), BYTES, COMPLEX});                       \
  }                                                                                                          \
  HOCKET_RUNTIME_EXPORT cublasStatus_t cublas##L##gemv_v2(cublasHandle_t handle, cublasOperation_t, int m,   \
                                                          int n, const T*, const T*, int, const T*, int,     \
                                                          const T*, T*, int) {                               \
    return Multiply(handle, "cublas" #L "gemv", {double(m), 1, double(n), 1, BYTES, COMPLEX});               \
  }

HOCKET_TYPED_PRODUCTS(S, float, 4, false)
HOCKET_TYPED_PRODUCTS(D, double, 8, false)
HOCKET_TYPED_PRODUCTS(C, cuComplex, 4, true)
HOCKET_TYPED_PRODUCTS(Z, cuDoubleComplex, 8, true)

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t, cublasOperation_t,
                                                  int m, int n, int k, const void*, const void*,
                                                  cudaDataType type, int, const void*, cudaDataType, int,
                                                  const void*, void*, cudaDataType, int, cublasComputeType_t,
                                                  cublasGemmAlgo_t) {
  return Multiply(handle, "cublasGemmEx",
                  {double(m), double(n), double(k), 1, ElementBytes(type), IsComplex(type)});
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t,
                                                   cublasOperation_t, int m, int n, int k, const float*,
                                                   const void*, cudaDataType type, int, const void*,
                                                   cudaDataType, int, const float*, void*, cudaDataType,
                                                   int) {
  return Multiply(handle, "cublasSgemmEx", {double(m), double(n), double(k), 1, ElementBytes(type), false});
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void*,
    const void*, cudaDataType type, int, long long, const void*, cudaDataType, int, long long, const void*,
    void*, cudaDataType, int, long long, int count, cublasComputeType_t, cublasGemmAlgo_t) {
  return Multiply(handle, "cublasGemmStridedBatchedEx",
                  {double(m), double(n), double(k), double(count), ElementBytes(type), IsComplex(type)});
}
