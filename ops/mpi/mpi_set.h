#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "ops/host/rank_set.h"
#include "ops/host/transfers.h"
#include "ops/mpi/messages.h"
#include "ops/mpi/scratch.h"
#include "ops/mpi/tags.h"

namespace hvd {

struct MpiCollectiveLimits {
  // All-reduces of up to this many bytes over all ranks go whole to all of them, which saves a
  // step; larger ones are scattered, reduced and gathered.
  std::size_t small_bytes = std::size_t{32} << 10;
  // Larger operations move piece by piece. Bounds the scratch memory, and lets one piece be reduced
  // while the next one moves.
  std::size_t piece_bytes = std::size_t{32} << 20;
  // Of one MPI call, which counts in int.
  std::size_t message_bytes = std::size_t{1} << 30;
};

// What the Collectives of one communicator share.
struct MpiShared {
  MpiShared(std::shared_ptr<MpiCommunicator> mpi, MpiCollectiveLimits the_limits);

  std::shared_ptr<MpiCommunicator> communicator;
  MpiCollectiveLimits limits;
  MpiTags tags;
  std::set<int> labels;  // of the sets that exist
  ScratchPool pool;
  host::Transfers transfers;

  // Of transfers.
  void begin_work() noexcept { communicator->begin_work(); }
  void end_work() noexcept { communicator->end_work(); }
};

// The ranks of one Collective and its running operations.
class MpiSet : public host::RankSet {
 public:
  // All ranks of the communicator.
  explicit MpiSet(std::shared_ptr<MpiShared> shared);
  // `ranks`: of the communicator, ascending; this one is among them. Throws UnsupportedError when
  // there are not enough tags to tell it from the sets that exist.
  MpiSet(const std::shared_ptr<const MpiSet>& parent, std::uint32_t number,
         std::vector<Rank> ranks);
  ~MpiSet() { shared_->labels.erase(label_); }

  MpiShared& shared() const noexcept { return *shared_; }

  // Operations are counted from their start to their end, on all ranks alike.
  std::uint64_t begin_operation();
  void end_operation(std::uint64_t number) { std::erase(running_, number); }
  // False while an operation that shares its tags runs.
  bool may_post(std::uint64_t number) const {
    return number - running_.front() < static_cast<std::uint64_t>(MpiTags::kWindow);
  }
  int first_tag(std::uint64_t operation) const { return MpiTags::first(label_, operation); }

 private:
  void take_label();

  const std::shared_ptr<MpiShared> shared_;
  const int label_;
  std::uint64_t next_operation_ = 0;
  std::deque<std::uint64_t> running_;  // ascending
};

}  // namespace hvd
