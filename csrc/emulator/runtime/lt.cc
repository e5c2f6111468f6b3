// cuBLASLt, as torch's linear layers use it: descriptors remember shapes, a product takes its time.
#include <cstring>

#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/runtime/blas.h"
#include "csrc/emulator/runtime/call.h"
#include "csrc/emulator/runtime/costs.h"
#include "csrc/emulator/runtime/cublas.h"
#include "csrc/emulator/runtime/refusal.h"

namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int32_t batches = 1;
};

// A product's description: all that its time depends on is whether A is transposed.
struct Description {
  cublasOperation_t a = CUBLAS_OP_N;
};

template <typename Handle, typename Object>
cublasStatus_t Give(Handle* handle, Object* object) {
  *handle = reinterpret_cast<Handle>(object);
  return CUBLAS_STATUS_SUCCESS;
}

double Operations(const Description& description, const Layout& a, const Layout& c) {
  const double k = description.a == CUBLAS_OP_N ? a.columns : a.rows;
  return 2.0 * c.rows * c.columns * k * c.batches;
}

}  // namespace

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return Give(handle, new char);
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                                              cublasComputeType_t, cudaDataType_t) {
  return Give(description, new Description);
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                                                    cublasLtMatmulDescAttributes_t attribute,
                                                                    const void* value, size_t) {
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
    std::memcpy(&reinterpret_cast<Description*>(description)->a, value, sizeof(cublasOperation_t));
  }
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                                cudaDataType type, uint64_t rows,
                                                                uint64_t columns, int64_t) {
  return Give(layout, new Layout{type, rows, columns});
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value, size_t) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    std::memcpy(&reinterpret_cast<Layout*>(layout)->batches, value, sizeof(int32_t));
  }
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Give(preference, new char);
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<char*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int requested,
    cublasLtMatmulHeuristicResult_t* results, int* returned) {
  *returned = requested > 0 ? 1 : 0;
  if (requested > 0) std::memset(results, 0, sizeof *results);
  return CUBLAS_STATUS_SUCCESS;
}

HOCKET_RUNTIME_EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                                    const void*, const void*, cublasLtMatrixLayout_t a,
                                                    const void*, cublasLtMatrixLayout_t, const void*,
                                                    const void*, cublasLtMatrixLayout_t c, void*,
                                                    cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*,
                                                    void*, size_t, cudaStream_t stream) {
  if (!hocket_emulator_is_timing())
    return static_cast<cublasStatus_t>(hocket_emulator_refuse("cublasLtMatmul", handle));
  const auto& left = *reinterpret_cast<const Layout*>(a);
  const double operations = Operations(*reinterpret_cast<const Description*>(description), left,
                                       *reinterpret_cast<const Layout*>(c));
  const int bytes = hocket::emulator::ElementBytes(left.type);
  hocket_emulator_launch(stream, "cublasLtMatmul", hocket::emulator::ProductMicroseconds(operations, bytes));
  return CUBLAS_STATUS_SUCCESS;
}
