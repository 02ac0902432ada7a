#pragma once

#include <memory>
#include <span>
#include <utility>

#include "ops/host/host_collective.h"
#include "ops/mpi/mpi_operation.h"
#include "ops/mpi/mpi_set.h"

namespace hvd {

// Collectives on host memory by MPI's non-blocking messages between two ranks, which move bytes
// only: all arithmetic is ops/host's, so every dtype and op works and a result does not depend on
// how batches were fused. MPI's own collective calls would want one order for all operations of a
// communicator and a communicator for every set; messages are told apart by their tags (MpiTags),
// so operations of one set and of several run side by side.
//
// All-reduce: Rabenseifner's reduce-scatter and all-gather (Thakur, Rabenseifner, Gropp 2005), with
// a direct exchange of ranges in place of recursive halving: each element is reduced by one rank,
// in rank order, and is therefore bitwise equal everywhere.
class MpiCollective final
    : public host::SetCollective<MpiCollective, MpiSet, MpiAllReduce, MpiReduceScatter,
                                 MpiBroadcast, MpiExchange> {
 public:
  explicit MpiCollective(std::shared_ptr<MpiSet> set) : SetCollective(std::move(set)) {}
  // Among all ranks of the communicator; subsets share it. Throws InvalidArgumentError if the
  // limits cannot be kept.
  MpiCollective(std::shared_ptr<MpiCommunicator> communicator, MpiCollectiveLimits limits)
      : MpiCollective(std::make_shared<MpiSet>(
            std::make_shared<MpiShared>(std::move(communicator), limits))) {}

  std::optional<Duration> poll_interval() const override {
    const MpiCommunicator& communicator = *set_->shared().communicator;
    const bool moves = communicator.has_work() || set_->shared().transfers.restless();
    return moves ? communicator.poll_interval() : communicator.linger_interval();
  }
  void progress(TimePoint now) override {
    host::Transfers& transfers = set_->shared().transfers;
    const bool looked = set_->shared().communicator->linger(now);
    if (transfers.restless() || (looked && transfers.unsettled())) transfers.poll();
  }
  void abort() noexcept override {
    set_->abort();
    MpiEnvironment::instance().note_failure();
  }
};

}  // namespace hvd
