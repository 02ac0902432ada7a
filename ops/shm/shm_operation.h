#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "ops/shm/shm_set.h"

namespace hvd {

// An operation has a lane of its set to itself; operation n of a set takes lane n % lanes, once
// operation n - lanes is finished on all ranks. A rank shows what it has in steps of a chunk; it
// has two chunks in the lane, so step s may be written when all who want it have read step s - 2.
// A step is written, then perhaps reduced, then read. For each of the three a rank tells how many
// steps it has done, as numbers that never fall while the set exists: (n / lanes) << kStepBits plus
// the steps. Whatever the others say can only make this rank wait, never reach beyond a chunk.
class ShmOperation : public Operation {
 public:
  ShmOperation(std::shared_ptr<ShmSet> set, std::vector<Fence> ready);
  // If it was not finished, the set is not usable any more.
  ~ShmOperation() override;
  ShmOperation(const ShmOperation&) = delete;
  ShmOperation& operator=(const ShmOperation&) = delete;

  bool advance() final;
  OperationStats stats() const final { return stats_; }

 protected:
  using Step = std::uint64_t;

  // What this rank does: it writes some steps and reads some. Between the two it reduces all of
  // them, if there is something to reduce in the chunks.
  struct Plan {
    Step writes = 0;
    Step reads = 0;
    bool reduces = false;
  };
  // In the constructor.
  void set_plan(const Plan& plan);

  // Fills this rank's chunk.
  virtual void write(Step step) = 0;
  // Every rank has written the step; works in this rank's chunk.
  virtual void reduce(Step) {}
  // Those from whom this rank receives have written (all have reduced) the step.
  virtual void read(Step step) = 0;
  // Whether something of a step passes between this rank and another one.
  virtual bool sends(std::size_t /*to*/, Step) const { return true; }
  virtual bool receives(std::size_t /*from*/, Step) const { return true; }
  // Whether every rank needs every other one's part of each step before it goes on.
  virtual bool needs_all() const { return true; }

  // What a rank shows in a step.
  std::byte* chunk(std::size_t rank, Step step) const;
  std::size_t chunk_bytes() const noexcept { return set_->segment().limits().chunk_bytes; }
  // Of a chunk, where it is divided among the ranks.
  std::size_t share() const noexcept { return chunk_bytes() / size() / 64 * 64; }
  // How many steps of `unit` bytes a sequence takes, and how much of it one of them has.
  static Step steps_of(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit; }
  static std::size_t length_of(std::size_t bytes, std::size_t unit, Step step) {
    return bytes > step * unit ? std::min(unit, bytes - step * unit) : 0;
  }
  const ShmLimits& limits() const noexcept { return set_->segment().limits(); }
  std::size_t size() const noexcept { return set_->size(); }
  std::size_t rank() const noexcept { return set_->rank(); }

  OperationStats stats_;

 private:
  using Flag = std::atomic<std::uint64_t> LaneProgress::*;
  static constexpr int kStepBits = 28;

  bool open();
  bool try_write();
  bool try_reduce();
  bool try_read();
  bool done() const noexcept { return written_ == plan_.writes && read_ == plan_.reads; }
  void tell(Flag flag, Step steps);
  void tell_read();
  template <typename Concerns>
  bool all_read(Step steps, const Concerns& concerns);
  template <typename Concerns>
  bool reached(Flag flag, Step steps, const Concerns& concerns) const;

  // A rank's part of the lane.
  struct Side {
    LaneProgress* progress;
    std::byte* chunks[2];
  };

  std::shared_ptr<ShmSet> set_;
  std::vector<Fence> ready_;
  const std::uint64_t number_;
  const std::uint64_t first_;  // what the flags say when no step is done
  Plan plan_;
  std::vector<Side> sides_;  // by rank, once the set has a place
  bool open_ = false;        // the lane is this operation's
  Step written_ = 0;
  Step reduced_ = 0;
  Step read_ = 0;
  bool told_end_ = false;
  bool waits_for_reads_ = false;
  bool finished_ = false;
};

}  // namespace hvd
