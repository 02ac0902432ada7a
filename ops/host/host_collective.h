#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/ports/collective.h"
#include "ops/host/adasum_operation.h"
#include "ops/host/arguments.h"
#include "ops/host/transfer_operation.h"

namespace hvd::host {

// What Collectives on host memory have in common: finished operations leave nothing running, and
// operations wait for the fences themselves.
class HostCollective : public Collective {
 public:
  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;
  // An all-gather of equal sizes.
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) final;
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) final;
  Fence fence() override { return {}; }

 protected:
  HostCollective(Rank rank, int size) : rank_(rank), size_(size) {}

  // This rank's end of a transfer with `peer`, which is a rank of this Collective.
  virtual std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer,
                                              int tag) = 0;

  const Rank rank_;
  const int size_;
  std::vector<Fence> ready_;  // not reached when last looked at
};

// A Collective whose operations are classes made of the set, the fences and the call's arguments.
// Gather moves from each rank to all, Exchange from each rank to each.
template <typename Set, typename AllReduce, typename ReduceScatter, typename Broadcast,
          typename Gather, typename Exchange>
class SetCollective : public HostCollective {
 public:
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    check_all_reduce(slices, reduction);
    return reduce_packed(slices, reduction);
  }
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) final {
    check_reduce_scatter(slices, reduction, rank_, size_);
    if (reduction.op == ReduceOp::kAdasum) return adasum(slices, reduction);
    return std::make_unique<ReduceScatter>(set_, ready_, slices, reduction);
  }
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) final {
    check_rank("broadcast from root", root, size_);
    return std::make_unique<Broadcast>(set_, ready_, slices, root);
  }
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) final {
    check_all_gather(slices, size_);
    return std::make_unique<Gather>(set_, ready_, slices);
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
    return collective_of(std::make_shared<Set>(set_, number, std::move(world_ranks)));
  }
  void abort() noexcept override { set_->abort(); }

 protected:
  explicit SetCollective(std::shared_ptr<Set> set)
      : HostCollective(static_cast<Rank>(set->rank()), static_cast<int>(set->size())),
        set_(std::move(set)) {}

  virtual std::unique_ptr<Collective> collective_of(std::shared_ptr<Set> set) const = 0;

  // Requires: arguments that are checked.
  std::unique_ptr<Operation> reduce_packed(std::span<const Slice> slices,
                                           const Reduction& reduction) {
    if (reduction.op == ReduceOp::kAdasum) return adasum(slices, reduction);
    return std::make_unique<AllReduce>(set_, ready_, slices, reduction);
  }

  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer,
                                      int tag) final {
    return std::make_unique<TransferOperation<Set>>(
        set_, Transfer{.sends = sends,
                       .key = {set_->key(), tag},
                       .peer = set_->world_rank(static_cast<std::size_t>(peer)),
                       .from = sends ? rank_ : peer,
                       .to = sends ? peer : rank_,
                       .tensor = tensor,
                       .ready = ready_});
  }

  const std::shared_ptr<Set> set_;

 private:
  std::unique_ptr<Operation> adasum(const auto& slices, const Reduction& reduction) {
    return std::make_unique<AdasumOperation>(*this, rank_, size_, ready_, slices, reduction);
  }
};

}  // namespace hvd::host
