#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/ports/collective.h"

namespace hvd {

struct SelfState;

// A world of one rank on host memory: what is in place and not scaled costs nothing, the rest is
// one copy. Nothing travels: a lossy wire format loses nothing, Adasum of one vector is that
// vector. Operations do their work in advance(), once the fences given to after() are reached.
class SelfCollective final : public Collective {
 public:
  SelfCollective();

  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  // 64-byte aligned.
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override;
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override;
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override;
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override;
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override;

  Fence fence() override { return {}; }
  void abort() noexcept override;

 private:
  explicit SelfCollective(std::shared_ptr<const SelfState> parent);
  std::unique_ptr<Operation> start(std::function<void()> work);
  std::unique_ptr<Operation> transfer(const TensorView& tensor, int tag, bool sends);

  std::vector<Fence> ready_;  // not reached when last looked at
  std::shared_ptr<SelfState> state_;
};

}  // namespace hvd
