#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/ports/fence.h"
#include "ops/host/host_collective.h"

namespace hvd {

// One end of a transfer of a rank to itself.
struct SelfTransfer {
  TensorView tensor;
  int tag = 0;
  bool sends = false;
  std::vector<Fence> ready;  // to be reached before its memory is touched
  bool over = false;         // copied or failed
  Status error = {};         // once over
};

using SelfTransferPtr = std::shared_ptr<SelfTransfer>;

// Sends and receives of one rank: of each tag the n-th with the n-th.
class SelfTransfers {
 public:
  // Takes its place among those of its tag.
  void post(const SelfTransferPtr& transfer);
  // Copies what can be copied now. True when `transfer` is over; throws MismatchError when its two
  // ends differ.
  bool serve(SelfTransfer& transfer);
  // As if it had not been posted; its memory is not touched any more.
  void withdraw(const SelfTransferPtr& transfer);

 private:
  struct Line {
    std::deque<SelfTransferPtr> sends;
    std::deque<SelfTransferPtr> receives;
  };

  std::map<int, Line> lines_;  // by tag
};

struct SelfState;

// A world of one rank on host memory: what is in place and not scaled costs nothing, the rest is
// one copy. Nothing travels: a lossy wire format loses nothing, Adasum of one vector is that
// vector. Operations do their work in advance(), once the fences given to after() are reached.
class SelfCollective final : public host::HostCollective {
 public:
  SelfCollective();

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  void abort() noexcept override;

 private:
  explicit SelfCollective(std::shared_ptr<const SelfState> parent);
  std::unique_ptr<Operation> start(std::function<void()> work);
  std::unique_ptr<Operation> transfer(bool sends, const TensorView& tensor, Rank peer,
                                      int tag) override;

  std::shared_ptr<SelfState> state_;
};

// A world of one rank: there is nobody to talk to.
class SelfControlPlane final : public ControlPlane {
 public:
  explicit SelfControlPlane(std::string host) : host_(std::move(host)) {}

  Topology topology() const noexcept override { return {}; }
  const std::vector<int>& host_of() const noexcept override { return host_of_; }
  std::string host_name(Rank) const override { return host_; }
  // Throws InternalError: no rank of a world of one has a peer.
  void send(Rank to, std::span<const std::byte> message) override;
  std::optional<Message> poll() override { return std::nullopt; }
  Doorbell& doorbell() noexcept override { return doorbell_; }
  void abort(const Status&) noexcept override {}

 private:
  std::string host_;
  std::vector<int> host_of_ = {0};
  DoorbellState state_;
  Doorbell doorbell_{state_};
};

}  // namespace hvd
