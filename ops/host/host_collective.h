#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/ports/collective.h"
#include "ops/host/adasum.h"
#include "ops/host/arguments.h"
#include "ops/host/host_memory.h"
#include "ops/host/reduce.h"
#include "ops/host/transfers.h"

namespace hvd::engine::host {

inline constexpr std::uint64_t kWorldKey = 0;

// What tells a subset from all others, on all ranks alike. Numbers are unique among the subsets of
// one set only. Those of the world keep theirs, so that keys modulo something return as late as can
// be; those of others are spread (the finaliser of SplitMix64).
constexpr std::uint64_t subset_key(std::uint64_t parent, std::uint32_t number) {
  if (parent == kWorldKey) return std::uint64_t{number} + 1;
  std::uint64_t mixed = (parent << 32 | parent >> 32) + number + 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

// The ranks of one Collective among those of a world.
class RankSet {
 public:
  // Whether the set's operations take Adasum themselves; else it is made of others
  // (AdasumOperation).
  static constexpr bool kOwnAdasum = false;

  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  // Tells it from all other sets, on all ranks alike.
  std::uint64_t key() const noexcept { return key_; }
  std::size_t size() const noexcept { return world_ranks_.size(); }
  std::size_t rank() const noexcept { return rank_; }
  Rank world_rank(std::size_t rank) const { return world_ranks_[rank]; }

  // Of this set and those made from it. Any thread.
  void abort() noexcept { aborted_ = true; }
  bool is_aborted() const noexcept {
    return aborted_ || (parent_ != nullptr && parent_->is_aborted());
  }
  void throw_if_aborted() const {
    if (is_aborted()) throw AbortedError("the collectives of this rank were aborted");
  }

  // Around each transfer; hidden by sets that have to be polled meanwhile.
  void begin_transfer() noexcept {}
  void end_transfer() noexcept {}

 protected:
  // All ranks of a world.
  RankSet(Rank mine, int world_size)
      : world_ranks_(static_cast<std::size_t>(world_size)), rank_(static_cast<std::size_t>(mine)) {
    std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
  }
  // `world_ranks` ascend; `mine` is among them.
  RankSet(std::shared_ptr<const RankSet> parent, std::uint32_t number, Rank mine,
          std::vector<Rank> world_ranks)
      : parent_(std::move(parent)),
        key_(subset_key(parent_->key_, number)),
        world_ranks_(std::move(world_ranks)),
        rank_(static_cast<std::size_t>(std::ranges::find(world_ranks_, mine) -
                                       world_ranks_.begin())) {}
  ~RankSet() = default;

  const std::vector<Rank>& world_ranks() const noexcept { return world_ranks_; }

 private:
  std::shared_ptr<const RankSet> parent_;
  std::uint64_t key_ = kWorldKey;
  std::vector<Rank> world_ranks_;
  std::size_t rank_ = 0;
  std::atomic<bool> aborted_{false};
};

// A Collective on host memory: finished operations leave nothing running, and operations wait for
// the fences themselves. They are classes made of the set, the fences and the call's arguments; a
// Derived is made of a set.
template <typename Derived, typename Set, typename AllReduce, typename ReduceScatter,
          typename Broadcast, typename Exchange>
class SetCollective : public Collective {
 public:
  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override { return allocate_buffer(bytes); }
  void after(const Fence& ready) override {
    all_reached(ready_);
    if (!ready.reached()) ready_.push_back(ready);
  }
  // An all-gather of equal sizes.
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    check_exchange(mine.size(), all.size(), size_);
    const GatherSlice slice = {
        mine.data(), all.data(),
        std::vector<std::size_t>(static_cast<std::size_t>(size_), mine.size_bytes())};
    return all_gather({&slice, 1});
  }
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) final {
    check_rank("send to rank", to, size_);
    return transfer(true, tensor, to, tag);
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) final {
    check_rank("receive from rank", from, size_);
    return transfer(false, tensor, from, tag);
  }
  Fence fence() override { return {}; }

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    check_all_reduce(slices, reduction);
    return reduce_packed(slices, reduction);
  }
  bool reduce_here(std::span<const Rank> /*ranks*/, std::span<const void* const> inputs,
                   DType dtype, std::int64_t numel, const Reduction& reduction,
                   void* result) const final {
    reduce(dtype, reduction.op, inputs, result, numel, reduction.prescale, reduction.postscale);
    return true;
  }
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) final {
    check_reduce_scatter(slices, reduction, rank_, size_);
    if (reduction.op == ReduceOp::kAdasum && !Set::kOwnAdasum) return adasum(slices, reduction);
    return std::make_unique<ReduceScatter>(set_, ready_, slices, reduction);
  }
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) final {
    check_rank("broadcast from root", root, size_);
    return std::make_unique<Broadcast>(set_, ready_, slices, root);
  }
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) final {
    check_all_gather(slices, size_);
    return std::make_unique<Exchange>(set_, ready_, slices);
  }
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) final {
    check_all_to_all(slices, rank_, size_);
    return std::make_unique<Exchange>(set_, ready_, slices);
  }
  // Throws UnsupportedError when the backend has no room for another set.
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) final {
    check_subset(ranks, rank_, size_);
    std::vector<Rank> world_ranks;
    for (const Rank each : ranks) {
      world_ranks.push_back(set_->world_rank(static_cast<std::size_t>(each)));
    }
    return std::make_unique<Derived>(std::make_shared<Set>(set_, number, std::move(world_ranks)));
  }
  void abort() noexcept override { set_->abort(); }

 protected:
  explicit SetCollective(std::shared_ptr<Set> set)
      : set_(std::move(set)),
        rank_(static_cast<Rank>(set_->rank())),
        size_(static_cast<int>(set_->size())) {}

  // Requires: arguments that are checked.
  std::unique_ptr<Operation> reduce_packed(std::span<const Slice> slices,
                                           const Reduction& reduction) {
    if (reduction.op == ReduceOp::kAdasum && !Set::kOwnAdasum) return adasum(slices, reduction);
    return std::make_unique<AllReduce>(set_, ready_, slices, reduction);
  }

  const std::shared_ptr<Set> set_;
  const Rank rank_;
  const int size_;
  std::vector<Fence> ready_;  // not reached when last looked at

 private:
  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer, int tag) {
    return std::make_unique<TransferOperation<Set>>(
        set_, Transfer{.sends = sends,
                       .key = {set_->key(), tag},
                       .peer = set_->world_rank(static_cast<std::size_t>(peer)),
                       .from = sends ? rank_ : peer,
                       .to = sends ? peer : rank_,
                       .tensor = tensor,
                       .ready = ready_});
  }

  std::unique_ptr<Operation> adasum(const auto& slices, const Reduction& reduction) {
    return std::make_unique<AdasumOperation>(*this, rank_, size_, ready_, slices, reduction);
  }
};

}  // namespace hvd::engine::host
