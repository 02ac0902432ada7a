#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/topology.h"
#include "core/ports/collective.h"

namespace hvd::engine {

// The ranks of a Collective by host.
struct HierLayout {
  std::vector<std::vector<Rank>> hosts;  // of each host, ascending; in the order of lowest ranks
  std::size_t host = 0;                  // this rank's
  std::size_t local = 0;                 // this rank's place on it

  const std::vector<Rank>& here() const { return hosts[host]; }
  // Every host has as many.
  bool even() const;
  // Those of a host follow each other.
  bool in_blocks() const;
  // Which ranks work with this one between hosts: those with its place on their hosts or, where
  // hosts are not even, the first rank of each. Empty if this rank has no part in it.
  std::vector<Rank> column() const;
};

// Rank r is on host host_of[r].
HierLayout make_hier_layout(Rank rank, std::span<const int> host_of);

// Ranks come to a later stage of their operations at different times, yet all of them must start
// the stages that use one collective in one order: that in which the operations were made.
class HierOrder {
 public:
  std::uint64_t join() noexcept { return joined_++; }
  // Throws AbortedError when an operation before it ended without having started the stage.
  bool is_next(std::uint64_t place) const;
  void start_next() noexcept { ++started_; }
  void break_off() noexcept { broken_ = true; }  // any thread

 private:
  std::uint64_t joined_ = 0;
  std::uint64_t started_ = 0;
  std::atomic<bool> broken_ = false;
};

using HierOrderPtr = std::shared_ptr<HierOrder>;

// An operation made of others that run one after the other.
class HierOperation final : public Operation {
 public:
  using Start = std::function<std::unique_ptr<Operation>()>;

  // `start` is called when the stages before it are finished and those of the operations before
  // this one have started; without an order, now.
  void add_stage(const HierOrderPtr& order, Start start);
  // Memory that lives as long as the operation.
  std::byte* scratch(std::size_t bytes);

  ~HierOperation() override;
  bool advance() override;
  bool withdraw() noexcept override;
  OperationStats stats() const override { return stats_; }

 private:
  struct Stage {
    HierOrderPtr order;
    std::uint64_t place = 0;
    Start start;
  };

  std::vector<Stage> stages_;
  std::size_t next_ = 0;  // stage to start
  std::vector<std::unique_ptr<std::byte[]>> scratch_;
  std::unique_ptr<Operation> running_;
  OperationStats stats_;
};

struct HierOptions {
  bool all_reduce = true;  // by host; false = as the flat collective does
  bool all_gather = true;
  // Sums of floating and complex numbers are added in rank order, by the flat collective; else host
  // by host, each host's in rank order.
  bool rank_order = false;
};

// Collectives on several hosts with several ranks each, made of others: `local` among the ranks of
// a host, `cross` among ranks of different hosts, and `flat` among all of them for what a hierarchy
// does not help. Every byte crosses the network once per host instead of once per rank.
//   all-reduce   hosts of equal size: reduce-scatter in each host, all-reduce of each part between
//                the ranks that hold it, all-gather in each host. Else: reduce to each host's first
//                rank, all-reduce between those, broadcast in each host. Flat: Adasum, wire
//                formats, products of floating and complex numbers, and sums of f16 and bf16, which
//                would be rounded twice.
//   all-gather   where hosts are of equal size and ranks stand in blocks: each rank with those of
//                its place on the other hosts, then each host's ranks with each other. Else flat.
//   others       flat: each byte has one receiver, or there are few of them.
// Results are equal on all ranks in any case. They are those of `flat` bit by bit except for sums
// of f32, f64 and complex numbers without rank_order, where the order of additions differs.
// Requires: finished operations of these collectives have left nothing running (host memory).
class HierCollective final : public Collective {
 public:
  // Among the ranks of `flat`, rank r of which is on host host_of[r]; `local` has those of this
  // rank's host in ascending order, or is empty and made from `flat`. All ranks call it, none
  // waits. Where there is one host, or no host has two ranks, one of the given ones is returned.
  static std::unique_ptr<Collective> make(std::unique_ptr<Collective> flat,
                                          std::unique_ptr<Collective> local, Rank rank,
                                          std::vector<int> host_of, const HierOptions& options);

  DeviceKind device() const noexcept override { return local_->device(); }
  Buffer allocate(std::size_t bytes) override { return local_->allocate(bytes); }
  bool reduce_here(std::span<const Rank> ranks, std::span<const void* const> inputs, DType dtype,
                   std::int64_t numel, const Reduction& reduction, void* result) const override;
  void after(const Fence& ready) override;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override {
    return flat_->reduce_scatter(slices, reduction);
  }
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override {
    return flat_->broadcast(slices, root);
  }
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override {
    return flat_->all_to_all(slices);
  }
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    return flat_->exchange(mine, all);
  }
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override {
    return flat_->send(tensor, to, tag);
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override {
    return flat_->receive(tensor, from, tag);
  }
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;
  std::optional<Duration> poll_interval() const override;
  std::optional<Duration> prepare_sleep() override;
  void progress(TimePoint now) override;
  Fence fence() override { return {}; }
  void abort() noexcept override;

 private:
  HierCollective(std::unique_ptr<Collective> flat, std::unique_ptr<Collective> local, Rank rank,
                 std::vector<int> host_of, HierLayout layout, const HierOptions& options);

  bool by_host(DType dtype, const Reduction& reduction) const;
  std::unique_ptr<Operation> reduce_in_parts(std::span<const Slice> slices,
                                             const Reduction& reduction);
  std::unique_ptr<Operation> reduce_by_leaders(std::span<const Slice> slices,
                                               const Reduction& reduction);

  const Rank rank_;
  const std::vector<int> host_of_;
  const HierLayout layout_;
  const HierOptions options_;
  // Operations on one collective start in the order in which they were made; first stages and last
  // ones do not come in one order, so they have a collective each.
  std::unique_ptr<Collective> flat_;
  std::unique_ptr<Collective> local_;   // first stages
  std::unique_ptr<Collective> cross_;   // empty if this rank has no part in it
  std::unique_ptr<Collective> spread_;  // last stages, in the host
  HierOrderPtr cross_order_ = std::make_shared<HierOrder>();
  HierOrderPtr spread_order_ = std::make_shared<HierOrder>();
};

}  // namespace hvd::engine
