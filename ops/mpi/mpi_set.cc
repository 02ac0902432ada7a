#include "ops/mpi/mpi_set.h"

#include <string>

#include "core/base/status.h"
#include "ops/host/reduce_batch.h"
#include "ops/mpi/transfer_link.h"

namespace hvd {
namespace {

int greatest_tag(const MpiCommunicator& communicator) {
  int* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(communicator.data(), MPI_TAG_UB, static_cast<void*>(&value), &found),
            "MPI_Comm_get_attr");
  return found != 0 ? *value : 0;
}

}  // namespace

MpiShared::MpiShared(std::shared_ptr<MpiCommunicator> mpi, MpiCollectiveLimits the_limits)
    : communicator(std::move(mpi)),
      limits(the_limits),
      tags(greatest_tag(*communicator)),
      transfers(std::make_unique<MpiTransferLink>(communicator, the_limits.message_bytes)) {
  if (limits.piece_bytes < host::ReduceBatch::kLongestUnit || limits.message_bytes == 0 ||
      limits.message_bytes > INT_MAX) {
    throw InvalidArgumentError(
        "pieces of " + std::to_string(limits.piece_bytes) + " bytes in messages of " +
        std::to_string(limits.message_bytes) + " bytes: expected pieces of at least " +
        std::to_string(host::ReduceBatch::kLongestUnit) + ", and messages of 1 to INT_MAX");
  }
}

MpiSet::MpiSet(std::shared_ptr<MpiShared> shared)
    : RankSet(shared->communicator->rank(), shared->communicator->size()),
      shared_(std::move(shared)),
      label_(shared_->tags.label(key())) {
  take_label();
}

MpiSet::MpiSet(const std::shared_ptr<const MpiSet>& parent, std::uint32_t number,
               std::vector<Rank> ranks)
    : RankSet(parent, number, parent->shared_->communicator->rank(), std::move(ranks)),
      shared_(parent->shared_),
      label_(shared_->tags.label(key())) {
  take_label();
}

void MpiSet::take_label() {
  if (shared_->labels.insert(label_).second) return;
  throw UnsupportedError(
      "a process set would share its MPI tags with one that still exists (tags up to MPI_TAG_UB "
      "tell " +
      std::to_string(shared_->tags.labels()) + " sets apart): remove older sets");
}

std::uint64_t MpiSet::begin_operation() {
  running_.push_back(next_operation_);
  return next_operation_++;
}

}  // namespace hvd
