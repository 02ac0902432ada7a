#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "ops/host/host_collective.h"

namespace hvd::engine {

// Sends and receives of one rank to itself: of each set and tag the n-th with the n-th. What
// host::Transfers is where there are other ranks.
class SelfTransfers {
 public:
  using TransferPtr = std::shared_ptr<host::Transfer>;

  TransferPtr add(host::Transfer transfer);
  bool withdraw(const TransferPtr& transfer, bool for_good) noexcept;
  void poll() {}  // nothing else moves data: done() does
  // Copies what of its set and tag can be copied now.
  bool done(const host::Transfer& transfer);

 private:
  struct Lines {
    std::deque<TransferPtr> sends;
    std::deque<TransferPtr> receives;
  };

  std::map<std::pair<std::uint64_t, int>, Lines> lines_;  // by set and tag
};

// The one rank of a Collective.
class SelfSet : public host::RankSet {
 public:
  static constexpr bool kOwnAdasum = true;
  struct Shared {
    SelfTransfers transfers;
  };

  SelfSet() : RankSet(0, 1), shared_(std::make_shared<Shared>()) {}
  SelfSet(const std::shared_ptr<const SelfSet>& parent, std::uint32_t number,
          std::vector<Rank> ranks)
      : RankSet(parent, number, 0, std::move(ranks)), shared_(parent->shared_) {}

  Shared& shared() const noexcept { return *shared_; }

 private:
  std::shared_ptr<Shared> shared_;
};

// Any operation: each slice is scaled or copied, in advance().
class SelfOperation final : public Operation {
 public:
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready,
                std::span<const Slice> slices, const Reduction& reduction)
      : SelfOperation(std::move(set), std::move(ready), reduction) {
    slices_.assign(slices.begin(), slices.end());
  }
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready,
                std::span<const ScatterSlice> slices, const Reduction& reduction)
      : SelfOperation(std::move(set), std::move(ready), reduction) {
    for (const ScatterSlice& slice : slices) slices_.push_back({slice.input, slice.output});
  }
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready,
                std::span<const Slice> slices, Rank /*root*/)
      : SelfOperation(std::move(set), std::move(ready), slices, Reduction{}) {}
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready,
                std::span<const GatherSlice> slices)
      : SelfOperation(std::move(set), std::move(ready), Reduction{}) {
    for (const GatherSlice& slice : slices) copy(slice.input, slice.output, slice.bytes_of[0]);
  }
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready,
                std::span<const ExchangeSlice> slices)
      : SelfOperation(std::move(set), std::move(ready), Reduction{}) {
    for (const ExchangeSlice& slice : slices) copy(slice.input, slice.output, slice.bytes_to[0]);
  }

  bool advance() override;

 private:
  SelfOperation(std::shared_ptr<SelfSet> set, std::vector<Fence> ready, const Reduction& reduction)
      : set_(std::move(set)), ready_(std::move(ready)), reduction_(reduction) {}
  void copy(const void* from, void* to, std::size_t bytes);

  std::shared_ptr<SelfSet> set_;
  std::vector<Fence> ready_;
  Reduction reduction_;
  std::vector<Slice> slices_;
  bool done_ = false;
};

// A world of one rank on host memory: what is in place and not scaled costs nothing, the rest is
// one copy. Nothing travels: a lossy wire format loses nothing, Adasum of one vector is that
// vector. Operations do their work in advance(), once the fences given to after() are reached.
class SelfCollective final
    : public host::SetCollective<SelfCollective, SelfSet, SelfOperation, SelfOperation,
                                 SelfOperation, SelfOperation> {
 public:
  explicit SelfCollective(std::shared_ptr<SelfSet> set) : SetCollective(std::move(set)) {}
  SelfCollective() : SetCollective(std::make_shared<SelfSet>()) {}
};

// A world of one rank: there is no other to talk to.
class SelfControlPlane final : public ControlPlane {
 public:
  explicit SelfControlPlane(std::string host) : ControlPlane({0, {0}, {std::move(host)}}) {}

  // Throws InternalError: no rank of a world of one has a peer.
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override { return std::nullopt; }
  Doorbell& doorbell() noexcept override { return doorbell_; }
  void abort(const Status&) noexcept override {}

 private:
  DoorbellState state_;
  Doorbell doorbell_{state_};
};

}  // namespace hvd::engine
