#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/ports/collective.h"

namespace hvd::engine::test {

// A real collective, for tests that change one of its calls.
class ForwardingCollective : public Collective {
 public:
  explicit ForwardingCollective(std::unique_ptr<Collective> inner) : inner_(std::move(inner)) {}

  DeviceKind device() const noexcept override { return inner_->device(); }
  Buffer allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  Buffer allocate_result(std::size_t bytes) override { return inner_->allocate_result(bytes); }
  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override {
    return inner_->make_arena(number, bytes, made);
  }
  void write(const void* from, void* to, std::size_t bytes) override {
    inner_->write(from, to, bytes);
  }
  void after(const Fence& ready) override { inner_->after(ready); }
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    return inner_->all_reduce(slices, reduction);
  }
  bool reduce_here(std::span<const Rank> ranks, std::span<const void* const> inputs, DType dtype,
                   std::int64_t numel, const Reduction& reduction, void* result) const override {
    return inner_->reduce_here(ranks, inputs, dtype, numel, reduction, result);
  }
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override {
    return inner_->reduce_scatter(slices, reduction);
  }
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override {
    return inner_->broadcast(slices, root);
  }
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override {
    return inner_->all_gather(slices);
  }
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override {
    return inner_->all_to_all(slices);
  }
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    return inner_->exchange(mine, all);
  }
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override {
    return inner_->send(tensor, to, tag);
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override {
    return inner_->receive(tensor, from, tag);
  }
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override {
    return inner_->subset(number, ranks);
  }
  std::optional<Duration> poll_interval() const override { return inner_->poll_interval(); }
  std::optional<Duration> prepare_sleep() override { return inner_->prepare_sleep(); }
  void progress(TimePoint now) override { inner_->progress(now); }
  Fence fence() override { return inner_->fence(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<Collective> inner_;
};

// A real collective of a rank whose exchanged counts arrive changed.
class LyingCollective final : public ForwardingCollective {
 public:
  using ForwardingCollective::ForwardingCollective;
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    lies_.assign(mine.size(), -5);
    return ForwardingCollective::exchange(lies_, all);
  }

 private:
  std::vector<std::int64_t> lies_;
};

}  // namespace hvd::engine::test
