// How long device work takes in timing mode, as data.
//
// A roofline: work takes as long as its bytes, its operations or its copy at the rate for them say, whichever
// is longest, and no kernel is shorter than `shortest_us`. Classes of operators (kernel_work.h) have rates
// of their own. Most rates of the default are the data sheet's, so a real GPU is slower; scripts/calibrate
// makes a file of those that were measured on one, and a row per kernel replaces the estimate where one
// matters:
//
//   # what     name or part of one        value
//   rate       memory_bytes_per_us        4.1e6
//   rate       reduction_bytes_per_us     3.7e6
//   kernel     vectorized_elementwise     4.2
//   kernel     ampere_sgemm_128x64        38
//   setting    TEARDOWN_MS                85
//   call       create_us                  16.8
//   call       create_us_per_mib          0.54
//
// A setting is one of the device's own (kSettings) that the process's environment does not name: what
// HOCKET_EMULATOR_TEARDOWN_MS=85 would say. It holds in both modes.
// A kernel takes the first row whose text its (mangled) name contains; so does an operator that is taken as
// one piece of work (csrc/emulator/operators/timed.h), by its own, as aten::_softmax. Copies and matrix
// products have no rows. A rate is a number from 1e-6 to 1e15.
// A call is one of the driver's own, for memory, and keeps the host thread that makes it (CallCosts).
#ifndef HOCKET_CSRC_EMULATOR_TIMING_COST_H_
#define HOCKET_CSRC_EMULATOR_TIMING_COST_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "csrc/base/bytes.h"
#include "csrc/emulator/timing/kernel_work.h"
#include "csrc/emulator/timing/timeline.h"

namespace hocket::emulator::timing {

struct KernelCost {
  std::string part_of_name;
  double microseconds = 0;
};

// A call of the driver that concerns one mapping, or one piece of memory, of so many MiB.
struct CallCost {
  double us = 0;
  double us_per_mib = 0;

  double Microseconds(Bytes size) const;
};

// How long the driver's memory calls keep the thread that makes them: rows `call NAME_us` and `call
// NAME_us_per_mib`, and the last three by their names. A call over several mappings takes as long as one for
// each. Measured on one H200 (driver 580.159.04, a virtual machine) on pieces of 2 to 64 MiB at addresses
// that had been mapped before, 4 to 128 in a row: the fit is within 8 % of most of them. Again and again on
// the same few chunks of 4 MiB they took 0.4 to 0.7 of it. What was not measured costs nothing.
struct CallCosts {
  CallCost create = {16.8, 0.54};
  CallCost map = {4.4, 0.045};  // host memory too
  CallCost access = {35.5, 0.12};
  CallCost unmap = {22.3, 0.02};
  CallCost release = {16.5, 0.57};  // of the last handle or mapping
  // Of memory at the host's node.
  CallCost host_create = {20, 240};
  CallCost host_own_access = {34, 32};  // the host's
  CallCost host_access = {50, 12.3};    // the device's
  CallCost host_unmap = {37, 2.3};
  CallCost host_release;  // not measured
  // cuMemHostRegister() of pages that nobody has touched (which it makes), and of others.
  CallCost pin = {0, 200};
  CallCost pin_touched = {0, 20};
  CallCost host_alloc = {0, 620};  // cuMemHostAlloc(), of 2 GiB

  // While the engine that copies to the host is busy a mapping's access by the device takes so much longer:
  // 1,020 us for 4 MiB of the device's memory, 1,058 for 4 MiB of the host's. 16 of them in one call took as
  // long as in 16, so it is neither the call nor the copy that costs: it looks like that engine's time slice.
  double access_behind_copy_us = 990;
  // Then other calls take so many times as long as above: 0.9 (release) to 1.3 (map, unmap).
  double beside_copy_factor = 1.2;
  // While copies to the device run, unmapping the host's memory takes so many times as long: 104 to 134 us
  // for 8 MiB, where restores on that GPU did it.
  double host_unmap_beside_copy_in_factor = 2;
};

// The numbers of the default are those of one H200 SXM.
struct CostModel {
  // No kernel is shorter. Empty kernels come back to back at 3 us each on recent GPUs: NVIDIA's developer
  // forum, "Too much time for kernel launch latency" (thread 233645).
  double shortest_us = 3;
  // 4.8 TB/s: NVIDIA's H200 data sheet.
  double memory_bytes_per_us = 4.8e6;
  // Dense rates by the size of an element, from the same sheet: 989 TFLOP/s on tensor cores for two bytes
  // (half of the sheet's figure, which counts on sparsity) and twice that for one; 67 for float32, which
  // PyTorch does not round to TF32 unless told to; 67 for float64 on tensor cores.
  double operations_per_us_1_byte = 1979e6;
  double operations_per_us_2_bytes = 989e6;
  double operations_per_us_4_bytes = 67e6;
  double operations_per_us_8_bytes = 67e6;
  // Convolutions, from the same sheet: cuDNN has the tensor cores, and rounds float32 to TF32 as PyTorch lets
  // it (torch.backends.cudnn.allow_tf32): half of 989 TFLOP/s. Elements of eight bytes: as products of them.
  double convolution_operations_per_us_2_bytes = 989e6;
  double convolution_operations_per_us_4_bytes = 494.5e6;
  // FlashAttention-2, which PyTorch brings, has 35 % of an H100's tensor cores: "FlashAttention-3" (arXiv
  // 2407.08608), abstract. For longer elements nobody has published a figure: as products of them.
  double attention_operations_per_us_2_bytes = 346e6;
  double attention_operations_per_us_4_bytes = 67e6;
  // Classes of operators that only move bytes. 0: memory_bytes_per_us, a bound that good kernels come near.
  double elementwise_bytes_per_us = 0;
  double reduction_bytes_per_us = 0;
  double normalisation_bytes_per_us = 0;
  double gather_bytes_per_us = 0;
  double optimizer_bytes_per_us = 0;
  // Measured with nvbandwidth on a node of eight H200 behind PCIe Gen5 x16: 55.43 GB/s in, 55.06 GB/s out.
  double copy_in_bytes_per_us = 55.43e3;
  double copy_out_bytes_per_us = 55.06e3;

  std::vector<KernelCost> kernels;
  CallCosts calls;

  static constexpr absl::string_view kSettings[] = {"CONTEXT_MEMORY", "CONTEXT_MS", "SLICE_US",
                                                    "TEARDOWN_MS"};
  std::map<std::string, std::string, std::less<>> settings;  // whole numbers, as text

  // What this process uses: the numbers above, changed by the file that HOCKET_EMULATOR_COSTS names
  // (scripts/calibrate makes one of a GPU's record). A file that cannot be read ends the process.
  static const CostModel& Default();

  // The default, changed by the rows of `text` (see above). kInvalidArgument names the line and what is
  // wrong.
  static absl::StatusOr<CostModel> Parse(absl::string_view text);

  double KernelMicroseconds(absl::string_view name, const KernelWork& work) const;
  // A matrix product of that many floating-point operations on elements of `element` bytes.
  double ProductMicroseconds(double operations, int element) const;
  // A copy within the device, which reads and writes every byte.
  double CopyMicroseconds(Bytes size) const;
  // A copy over the link. REQUIRES: direction is kToDevice or kToHost.
  double CopyMicroseconds(Engine direction, Bytes size) const;
};

// Rounded to the nanosecond, at least one.
Nanos FromMicroseconds(double microseconds);

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_COST_H_
