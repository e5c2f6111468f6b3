// Any text is read as a table of costs (HOCKET_EMULATOR_COSTS) or refused with a sentence; what is read gives
// times.
#include <cstddef>
#include <cstdint>
#include <string>

#include "csrc/base/check.h"
#include "csrc/emulator/timing/cost.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::emulator::timing;
  const auto model = CostModel::Parse({reinterpret_cast<const char*>(data), size});
  HOCKET_CHECK(model.ok() || !model.status().message().empty()) << "refused without a word";
  if (!model.ok()) return 0;
  const KernelWork work = {OperatorClass::kAttention, 1e9, 1e12, 2};
  for (double microseconds :
       {model->KernelMicroseconds("gemm_128", work), model->ProductMicroseconds(1e12, 2),
        model->CopyMicroseconds(hocket::Bytes{1} << 30)})
    HOCKET_CHECK(FromMicroseconds(microseconds) > 0) << microseconds;
  return 0;
}
