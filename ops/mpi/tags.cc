#include "ops/mpi/tags.h"

#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

constexpr int kGuaranteed = 32767;  // MPI 4.0, section 9.1.2

}  // namespace

MpiTags::MpiTags(int upper_bound) : labels_(upper_bound / kReserved - 1) {
  if (upper_bound >= kGuaranteed) return;
  throw UnsupportedError("this MPI has tags up to " + std::to_string(upper_bound) +
                         " (MPI_TAG_UB); at least " + std::to_string(kGuaranteed) +
                         " are expected");
}

}  // namespace hvd
