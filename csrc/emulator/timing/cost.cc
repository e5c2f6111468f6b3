#include "csrc/emulator/timing/cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket::emulator::timing {
namespace {

constexpr double kLongestCallUs = 3.6e9;  // an hour
// Far beyond every device; what they leave of any work can be counted in nanoseconds.
constexpr double kLeastRate = 1e-6, kHighestRate = 1e15;

struct Rate {
  absl::string_view name;
  double CostModel::*value;
};

constexpr Rate kRates[] = {
    {"shortest_us", &CostModel::shortest_us},
    {"memory_bytes_per_us", &CostModel::memory_bytes_per_us},
    {"operations_per_us_1_byte", &CostModel::operations_per_us_1_byte},
    {"operations_per_us_2_bytes", &CostModel::operations_per_us_2_bytes},
    {"operations_per_us_4_bytes", &CostModel::operations_per_us_4_bytes},
    {"operations_per_us_8_bytes", &CostModel::operations_per_us_8_bytes},
    {"convolution_operations_per_us_2_bytes", &CostModel::convolution_operations_per_us_2_bytes},
    {"convolution_operations_per_us_4_bytes", &CostModel::convolution_operations_per_us_4_bytes},
    {"attention_operations_per_us_2_bytes", &CostModel::attention_operations_per_us_2_bytes},
    {"attention_operations_per_us_4_bytes", &CostModel::attention_operations_per_us_4_bytes},
    {"elementwise_bytes_per_us", &CostModel::elementwise_bytes_per_us},
    {"reduction_bytes_per_us", &CostModel::reduction_bytes_per_us},
    {"normalisation_bytes_per_us", &CostModel::normalisation_bytes_per_us},
    {"gather_bytes_per_us", &CostModel::gather_bytes_per_us},
    {"optimizer_bytes_per_us", &CostModel::optimizer_bytes_per_us},
    {"copy_in_bytes_per_us", &CostModel::copy_in_bytes_per_us},
    {"copy_out_bytes_per_us", &CostModel::copy_out_bytes_per_us},
};

absl::Status SetRate(CostModel& model, absl::string_view name, double value) {
  const auto* rate =
      std::find_if(std::begin(kRates), std::end(kRates), [&](const Rate& r) { return r.name == name; });
  if (rate == std::end(kRates))
    return absl::InvalidArgumentError(absl::StrCat("no rate is called '", name, "'"));
  if (!(value >= kLeastRate && value <= kHighestRate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(value, " is not a number from ", kLeastRate, " to ", kHighestRate));
  }
  model.*rate->value = value;
  return absl::OkStatus();
}

struct CallRow {
  absl::string_view name;
  CallCost CallCosts::*cost;
};

constexpr CallRow kCalls[] = {
    {"create", &CallCosts::create},
    {"map", &CallCosts::map},
    {"access", &CallCosts::access},
    {"unmap", &CallCosts::unmap},
    {"release", &CallCosts::release},
    {"host_create", &CallCosts::host_create},
    {"host_own_access", &CallCosts::host_own_access},
    {"host_access", &CallCosts::host_access},
    {"host_unmap", &CallCosts::host_unmap},
    {"host_release", &CallCosts::host_release},
    {"pin", &CallCosts::pin},
    {"pin_touched", &CallCosts::pin_touched},
    {"host_alloc", &CallCosts::host_alloc},
};

// The number that a row of that name sets; nullptr: there is none.
double* CallNumber(CallCosts& calls, absl::string_view name) {
  if (name == "access_behind_copy_us") return &calls.access_behind_copy_us;
  if (name == "beside_copy_factor") return &calls.beside_copy_factor;
  if (name == "host_unmap_beside_copy_in_factor") return &calls.host_unmap_beside_copy_in_factor;
  const bool per_mib = absl::ConsumeSuffix(&name, "_us_per_mib");
  if (!per_mib && !absl::ConsumeSuffix(&name, "_us")) return nullptr;
  const auto* row =
      std::find_if(std::begin(kCalls), std::end(kCalls), [&](const CallRow& r) { return r.name == name; });
  if (row == std::end(kCalls)) return nullptr;
  CallCost& cost = calls.*row->cost;
  return per_mib ? &cost.us_per_mib : &cost.us;
}

absl::Status SetCall(CostModel& model, absl::string_view name, double value) {
  double* const number = CallNumber(model.calls, name);
  if (number == nullptr) return absl::InvalidArgumentError(absl::StrCat("no call has a '", name, "'"));
  if (!(value >= 0 && value <= kLongestCallUs))
    return absl::InvalidArgumentError(absl::StrCat(value, " is not a number from 0 to ", kLongestCallUs));
  *number = value;
  return absl::OkStatus();
}

absl::Status AddSetting(CostModel& model, absl::string_view name, absl::string_view value) {
  if (std::find(std::begin(CostModel::kSettings), std::end(CostModel::kSettings), name) ==
      std::end(CostModel::kSettings))
    return absl::InvalidArgumentError(absl::StrCat("no setting is called '", name, "'"));
  std::int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < 0)
    return absl::InvalidArgumentError(absl::StrCat(value, " is not a whole number, 0 or more"));
  model.settings[std::string(name)] = std::string(value);
  return absl::OkStatus();
}

absl::Status AddRow(CostModel& model, absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipWhitespace());
  double value = 0;
  if (words.size() != 3 || !absl::SimpleAtod(words[2], &value)) {
    return absl::InvalidArgumentError(
        "wanted 'rate NAME NUMBER', 'kernel TEXT MICROSECONDS', 'call NAME NUMBER' or 'setting NAME NUMBER'");
  }
  if (words[0] == "setting") return AddSetting(model, words[1], words[2]);
  if (words[0] == "call") return SetCall(model, words[1], value);
  if (words[0] == "rate") return SetRate(model, words[1], value);
  if (words[0] != "kernel") return absl::InvalidArgumentError(absl::StrCat("unknown row '", words[0], "'"));
  if (!std::isfinite(value) || value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(words[2], " is not a number above 0"));
  }
  model.kernels.push_back({std::string(words[1]), value});
  return absl::OkStatus();
}

absl::string_view WithoutComment(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
}

std::string TextOf(const char* file) {
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  HOCKET_CHECK(stream.good()) << "HOCKET_EMULATOR_COSTS names " << file << ", which cannot be read";
  return text;
}

CostModel FromEnvironment() {
  const char* file = std::getenv("HOCKET_EMULATOR_COSTS");
  if (file == nullptr || *file == '\0') return CostModel();
  const absl::StatusOr<CostModel> model = CostModel::Parse(TextOf(file));
  HOCKET_CHECK(model.ok()) << "HOCKET_EMULATOR_COSTS names " << file << ": " << model.status().message();
  return *model;
}

// The rate of a class that moves bytes; 0: it has none of its own.
double BytesPerMicrosecond(const CostModel& model, OperatorClass of) {
  switch (of) {
    case OperatorClass::kElementwise:
      return model.elementwise_bytes_per_us;
    case OperatorClass::kReduction:
      return model.reduction_bytes_per_us;
    case OperatorClass::kNormalisation:
      return model.normalisation_bytes_per_us;
    case OperatorClass::kGather:
      return model.gather_bytes_per_us;
    case OperatorClass::kOptimizer:
      return model.optimizer_bytes_per_us;
    case OperatorClass::kOther:
    case OperatorClass::kConvolution:
    case OperatorClass::kAttention:
      return 0;
  }
  return 0;
}

double ProductRate(const CostModel& model, int element) {
  return element <= 1   ? model.operations_per_us_1_byte
         : element <= 2 ? model.operations_per_us_2_bytes
         : element <= 4 ? model.operations_per_us_4_bytes
                        : model.operations_per_us_8_bytes;
}

double OperationsPerMicrosecond(const CostModel& model, OperatorClass of, int element) {
  const bool convolution = of == OperatorClass::kConvolution;
  if ((!convolution && of != OperatorClass::kAttention) || element > 4) return ProductRate(model, element);
  if (element <= 2) {
    return convolution ? model.convolution_operations_per_us_2_bytes
                       : model.attention_operations_per_us_2_bytes;
  }
  return convolution ? model.convolution_operations_per_us_4_bytes
                     : model.attention_operations_per_us_4_bytes;
}

}  // namespace

double CallCost::Microseconds(Bytes size) const {
  return us + us_per_mib * static_cast<double>(size) / static_cast<double>(1_MiB);
}

const CostModel& CostModel::Default() {
  static const CostModel& model = *new CostModel(FromEnvironment());
  return model;
}

absl::StatusOr<CostModel> CostModel::Parse(absl::string_view text) {
  CostModel model;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = WithoutComment(line);
    if (line.empty()) continue;
    if (const absl::Status status = AddRow(model, line); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read line ", number, " of the costs, '", line, "': ", status.message(), "."));
    }
  }
  return model;
}

double CostModel::KernelMicroseconds(absl::string_view name, const KernelWork& work) const {
  for (const KernelCost& kernel : kernels) {
    if (absl::StrContains(name, kernel.part_of_name)) return kernel.microseconds;
  }
  const double of_class = BytesPerMicrosecond(*this, work.of);
  const double moving = work.bytes / (of_class > 0 ? of_class : memory_bytes_per_us);
  const double computing = work.operations / OperationsPerMicrosecond(*this, work.of, work.element);
  return std::max({shortest_us, moving, computing});
}

double CostModel::ProductMicroseconds(double operations, int element) const {
  return std::max(shortest_us, operations / ProductRate(*this, element));
}

double CostModel::CopyMicroseconds(Bytes size) const {
  return std::max(shortest_us, 2 * static_cast<double>(size) / memory_bytes_per_us);
}

double CostModel::CopyMicroseconds(Engine direction, Bytes size) const {
  HOCKET_CHECK(direction != Engine::kCompute) << "no link";
  const double rate = direction == Engine::kToDevice ? copy_in_bytes_per_us : copy_out_bytes_per_us;
  return std::max(shortest_us, static_cast<double>(size) / rate);
}

Nanos FromMicroseconds(double microseconds) {
  return std::max<Nanos>(1, static_cast<Nanos>(std::llround(microseconds * 1000)));
}

}  // namespace hocket::emulator::timing
