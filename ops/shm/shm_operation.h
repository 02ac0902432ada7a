#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/allocators.h"
#include "core/ports/collective.h"
#include "ops/host/byte_sequence.h"
#include "ops/host/host_memory.h"
#include "ops/host/reduce_batch.h"
#include "ops/shm/shm_set.h"

namespace hvd::engine {

// An operation has a lane of its set to itself; operation n of a set takes lane n % lanes, once
// operation n - lanes is finished on all ranks. A rank shows what it has in steps of a chunk; it
// has two chunks in the lane, so step s may be written when all who want it have read step s - 2.
// A step is written, then perhaps reduced, then read. For each of the three a rank tells how many
// steps it has done, as numbers that never fall while the set exists: (n / lanes) << kStepBits plus
// the steps. The one step of an operation may be written before the rank starts it, as long as its
// lane is free: `early` then names operation and submission. Whatever the others say can only make
// this rank wait, never reach beyond a chunk.
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
  // The same: ranks that expect `submission`, which is not 0, may have written its one step.
  void expect_early(std::uint64_t submission) { early_ = early_flag(number_, submission); }

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
  using Side = ShmSet::Side;
  using Flag = std::atomic<std::uint64_t> LaneProgress::*;

  bool open();
  bool try_write();
  bool try_reduce();
  bool try_read();
  bool done() const noexcept { return written_ == plan_.writes && read_ == plan_.reads; }
  void tell(Flag flag, Step steps);
  void tell_read();
  template <typename Concerns>
  bool all_read(Step steps, const Concerns& concerns);
  // Whether the rank wrote the one step before it started the operation.
  bool wrote_early(const Side& side) const {
    return early_ != 0 && side.progress->early.load(std::memory_order_seq_cst) == early_;
  }
  template <typename Concerns>
  bool reached(Flag flag, Step steps, const Concerns& concerns) const;

  std::shared_ptr<ShmSet> set_;
  std::vector<Fence> ready_;
  const std::uint64_t number_;
  const std::uint64_t first_;  // what the flags say when no step is done
  Plan plan_;
  std::uint64_t early_ = 0;      // what `early` says of who has written already; 0: it does not
  std::span<const Side> sides_;  // by rank, once the set has a place
  bool open_ = false;            // the lane is this operation's
  Step written_ = 0;
  Step reduced_ = 0;
  Step read_ = 0;
  bool told_end_ = false;
  bool waits_for_reads_ = false;
  bool finished_ = false;
};

// From every rank to every other one: all-gather, broadcast and all-to-all. What is the same for
// all is shown once, else a chunk has a share for each.
class ShmExchange final : public ShmOperation {
 public:
  // GatherSlices, ExchangeSlices, or Slices and the root.
  template <typename... Slices>
  ShmExchange(std::shared_ptr<ShmSet> set, std::vector<Fence> ready, const Slices&... slices)
      : ShmOperation(std::move(set), std::move(ready)),
        parcels_(slices..., rank(), size()),
        unit_(parcels_.one_for_all() ? chunk_bytes() : share()) {
    prepare();
  }

 protected:
  void write(Step step) override;
  void read(Step step) override;
  bool sends(std::size_t to, Step step) const override { return length(parcels_.to(to), to, step); }
  bool receives(std::size_t from, Step step) const override {
    return length(parcels_.from(from), from, step);
  }
  bool needs_all() const override { return false; }

 private:
  void prepare();
  // Of what passes between this rank and another one in a step.
  std::size_t length(const host::ByteSequence& sequence, std::size_t other, Step step) const {
    return other == rank() ? 0 : length_of(sequence.bytes(), unit_, step);
  }
  // Where a rank finds what is for it in another one's chunk.
  std::size_t place_of(std::size_t receiver) const {
    return parcels_.one_for_all() ? 0 : receiver * unit_;
  }

  const host::Parcels parcels_;
  const std::size_t unit_;  // bytes that a rank is shown in a step
};

// See ShmCollective. Requires: slices of one dtype, and not Adasum.
class ShmAllReduce final : public ShmOperation, public Recycled<ShmAllReduce> {
 public:
  ShmAllReduce(std::shared_ptr<ShmSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
               const Reduction& reduction);
  // See Collective::show_early().
  static void show_early(ShmSet& set, std::span<const Slice> slices);

 protected:
  void write(Step step) override;
  void reduce(Step step) override;
  void read(Step step) override;

 private:
  // Bytes [first, last) of the batch.
  struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t bytes() const { return last - first; }
  };
  Range range_of(Step step) const;
  Range part_of(const Range& range, std::size_t rank) const;
  void publish(const Range& range, std::byte* to);
  void unpack(const Range& range, const std::byte* from);
  void reduce(const Range& range, Step step, std::byte* out);

  std::unique_ptr<host::ReduceBatch> batch_;
  bool shared_;             // the work: each rank reduces a part of each step
  std::size_t step_bytes_;  // whole units fit into a chunk
  std::vector<const void*> inputs_;
};

// See ShmCollective. Requires: slices of one dtype whose parts add up, and not Adasum. A chunk has
// a share for each rank.
class ShmReduceScatter final : public ShmOperation {
 public:
  ShmReduceScatter(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                   std::span<const ScatterSlice> slices, const Reduction& reduction);

 protected:
  void write(Step step) override;
  void read(Step step) override;
  bool sends(std::size_t to, Step step) const override { return length(to, step) > 0; }

 private:
  std::size_t length(std::size_t rank, Step step) const;

  Reduction reduction_;
  DType dtype_ = DType::kF32;
  std::vector<host::ByteSequence> inputs_;  // what this rank contributes to the part of each rank
  host::ByteSequence output_;
  std::vector<const void*> contributions_;
  Buffer scratch_;
};

// An all-reduce of slices that lie in an arena. Each rank reduces an equal share of the cache lines
// that all of them take, block by block: from where every rank has them, in rank order, into all of
// these places. So each line is fetched once on each of two ranks, and nothing is packed.
class ShmReduceInPlace final : public ShmOperation {
 public:
  // Requires: slices of one dtype, in `arena`; a reduction element by element.
  ShmReduceInPlace(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                   host::MappedArenaPtr arena, std::span<const Slice> slices,
                   const Reduction& reduction);

 protected:
  // The step says that this rank's values are there, and then that its share is reduced.
  void write(Step) override {}
  void reduce(Step step) override;
  void read(Step) override {}

 private:
  void reduce(const Slice& slice, std::size_t first, std::size_t last);

  host::MappedArenaPtr arena_;
  std::vector<Slice> slices_;
  Reduction reduction_;
  std::size_t lines_ = 0;  // of all slices
  std::vector<const void*> inputs_;
};

// Makes an arena: every rank a part in its arena file, of which it writes the offset into its
// chunk; every rank maps all of them and says whether it could. If one could not, there is none.
class ShmMakeArena final : public ShmOperation {
 public:
  // Fills in `arena`, which has to live as long as what is in `made`, and `made`, which is empty.
  ShmMakeArena(std::shared_ptr<ShmSet> set, host::MappedArenaPtr arena, std::size_t bytes,
               ArenaMemory& made);

 protected:
  void write(Step step) override;
  void reduce(Step step) override;
  void read(Step step) override;

 private:
  std::shared_ptr<ArenaPart> open(std::size_t rank) const;

  std::shared_ptr<ShmSet> members_;
  host::MappedArenaPtr arena_;
  std::size_t bytes_;
  ArenaMemory& made_;
  std::shared_ptr<ArenaPart> mine_;  // null: this rank could not
  bool mapped_ = false;
};

}  // namespace hvd::engine
