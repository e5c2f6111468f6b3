#include "coordinator/policies/fifo.h"

namespace hocket::coordinator {

std::string Fifo::Reason(const JobView& next) const { return "has waited longest"; }

}  // namespace hocket::coordinator
