#pragma once

#include <memory>
#include <span>
#include <utility>

#include "ops/host/host_collective.h"
#include "ops/mpi/mpi_movement.h"
#include "ops/mpi/mpi_reductions.h"
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
class MpiCollective final : public host::SetCollective<MpiSet, MpiAllReduce, MpiReduceScatter,
                                                       MpiBroadcast, MpiExchange, MpiExchange> {
 public:
  // Among all ranks of the communicator; subsets share it. Throws InvalidArgumentError if the
  // limits cannot be kept.
  MpiCollective(std::shared_ptr<MpiCommunicator> communicator, MpiCollectiveLimits limits);

  std::optional<Duration> poll_interval() const override;
  void progress(TimePoint now) override;
  void abort() noexcept override;

 private:
  explicit MpiCollective(std::shared_ptr<MpiSet> set) : SetCollective(std::move(set)) {}
  std::unique_ptr<Collective> collective_of(std::shared_ptr<MpiSet> set) const override;
};

}  // namespace hvd
