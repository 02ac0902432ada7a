#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/runtime/collective.h"

namespace hvd {

// A world of one rank on host memory: what is in place and not scaled costs nothing, the rest is
// one copy. Operations do their work in advance(), once the fences given to after() are reached.
class SelfCollective final : public Collective {
 public:
  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  // 64-byte aligned.
  Buffer allocate(std::size_t bytes) override;
  void after(const Fence& ready) override;

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices, ReduceOp op,
                                        double scale) override;
  // Throws InvalidArgumentError unless root is 0.
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override;
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override;

  Fence fence() override { return {}; }
  void abort() noexcept override { *aborted_ = true; }

 private:
  std::unique_ptr<Operation> start(std::function<void()> work);

  std::vector<Fence> ready_;  // not reached when last looked at
  std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace hvd
