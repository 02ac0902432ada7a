#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/host_collective.h"
#include "ops/host/transfers.h"
#include "ops/mpi/messages.h"

namespace hvd {

// How the tags of one communicator are divided, so that no message meets a receive that was not
// meant for it:
//
//   0 ... kReserved - 1                    what MpiTag names
//   (label * kWindow + slot) * kStages + stage
//
// `label` (1, 2, ...) stands for a Collective, `slot` for one of its operations and `stage` for a
// kind of message in it. Slots and labels return: MPI keeps the order of equal tags between two
// ranks, so it is enough that on each rank those who share a tag post their messages one after the
// other.
class MpiTags {
 public:
  static constexpr int kStages = 4;
  static constexpr int kWindow = 64;  // operations of one Collective that may run at a time
  static constexpr int kReserved = kStages * kWindow;

  // `upper_bound`: the greatest tag, MPI's attribute MPI_TAG_UB. Throws UnsupportedError if it is
  // less than the 32767 that every MPI has to offer.
  explicit MpiTags(int upper_bound);

  // Two Collectives of one label must not exist on a rank at a time.
  int label(std::uint64_t key) const {
    return 1 + static_cast<int>(key % static_cast<std::uint64_t>(labels_));
  }
  int labels() const noexcept { return labels_; }

  static int first(int label, std::uint64_t operation) {
    return label * kReserved + static_cast<int>(operation % kWindow) * kStages;
  }

 private:
  int labels_;
};

// Memory that operations borrow one after the other: fresh pages cost more than what is done with
// them. Not thread-safe.
class ScratchPool {
 public:
  // At least `bytes`, 64-byte aligned, holding anything.
  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
  std::size_t free_bytes_ = 0;
};

// What one piece of an operation borrowed. Gives it back when it is destroyed.
class Scratch {
 public:
  explicit Scratch(ScratchPool& pool) : pool_(pool) {}
  ~Scratch() {
    for (Buffer& buffer : taken_) pool_.give_back(std::move(buffer));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* take(std::size_t bytes) {
    taken_.push_back(pool_.take(bytes));
    return static_cast<std::byte*>(taken_.back().data);
  }

 private:
  ScratchPool& pool_;
  std::vector<Buffer> taken_;
};

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

  void begin_transfer() noexcept { shared_->communicator->begin_work(); }
  void end_transfer() noexcept { shared_->communicator->end_work(); }

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
