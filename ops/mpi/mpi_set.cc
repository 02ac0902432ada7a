#include "ops/mpi/mpi_set.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/status.h"
#include "ops/host/reduce_batch.h"
#include "ops/host/set_key.h"
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

std::vector<Rank> all_ranks(const MpiCommunicator& communicator) {
  std::vector<Rank> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
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
    : MpiSet(shared, nullptr, host::kWorldKey, all_ranks(*shared->communicator)) {}

MpiSet::MpiSet(std::shared_ptr<const MpiSet> parent, std::uint32_t number, std::vector<Rank> ranks)
    : MpiSet(parent->shared_, parent, host::subset_key(parent->key_, number), std::move(ranks)) {}

MpiSet::MpiSet(std::shared_ptr<MpiShared> shared, std::shared_ptr<const MpiSet> parent,
               std::uint64_t key, std::vector<Rank> ranks)
    : shared_(std::move(shared)),
      parent_(std::move(parent)),
      key_(key),
      ranks_(std::move(ranks)),
      label_(shared_->tags.label(key)) {
  const auto mine = std::find(ranks_.begin(), ranks_.end(), shared_->communicator->rank());
  rank_ = static_cast<std::size_t>(mine - ranks_.begin());
  if (shared_->labels.insert(label_).second) return;
  throw UnsupportedError(
      "a process set would share its MPI tags with one that still exists (tags up to MPI_TAG_UB "
      "tell " +
      std::to_string(shared_->tags.labels()) + " sets apart): remove older sets");
}

MpiSet::~MpiSet() {
  shared_->labels.erase(label_);
}

std::uint64_t MpiSet::begin_operation() {
  running_.push_back(next_operation_);
  return next_operation_++;
}

bool MpiSet::is_aborted() const noexcept {
  for (const MpiSet* set = this; set != nullptr; set = set->parent_.get()) {
    if (set->aborted_) return true;
  }
  return false;
}

void MpiSet::throw_if_aborted() const {
  if (is_aborted()) throw AbortedError("the collectives of this rank were aborted");
}

}  // namespace hvd
