#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "ops/cuda/check.h"
#include "ops/cuda/stream.h"
#include "ops/host/host_memory.h"
#include "test/gpu/cases/contract_cases.h"

namespace hvd::engine::test {
namespace {

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy");
  CudaEvent(0, nullptr).wait();  // from pageable memory the copy may still be under way
}

// An arena and its copy on the host.
struct Twin {
  Buffer host;
  Buffer device;
};

using Twins = std::vector<std::weak_ptr<Twin>>;

// The device's side of what one operation reads and writes.
class Mirror {
 public:
  explicit Mirror(Collective& collective, const Twins& twins) : collective_(collective) {
    for (const auto& each : twins) {
      if (auto twin = each.lock()) twins_.push_back(std::move(twin));
    }
  }

  // Memory on the device for `bytes` bytes at `host`; where it was before, if it was or a part of
  // it. In an arena the padding belongs to it.
  void* at(const void* host, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(host);
    for (const Copy& copy : copies_) {
      if (inside(first, bytes, copy.host, copy.bytes)) return copy.device + (first - copy.host);
    }
    for (const auto& twin : twins_) {
      auto* const begin = static_cast<std::byte*>(twin->host.data);
      if (!inside(first, bytes, begin, twin->host.bytes)) continue;
      const auto offset = static_cast<std::size_t>(first - begin);
      const std::size_t padded = std::min((bytes + 63) / 64 * 64, twin->host.bytes - offset);
      return add(begin + offset, static_cast<std::byte*>(twin->device.data) + offset, padded);
    }
    memory_.push_back(collective_.allocate(bytes));
    return add(const_cast<std::byte*>(first), static_cast<std::byte*>(memory_.back().data), bytes);
  }
  TensorView at(const TensorView& view) {
    TensorView made = view;
    made.data = at(view.data, view.bytes());
    made.device = {DeviceKind::kCuda, 0};
    return made;
  }
  void upload() const {
    for (const Copy& each : copies_) {
      copy(each.device, each.host, each.bytes, cudaMemcpyHostToDevice);
    }
  }
  // Inputs come back as they were.
  void download() const {
    for (const Copy& each : copies_) {
      copy(each.host, each.device, each.bytes, cudaMemcpyDeviceToHost);
    }
  }

 private:
  struct Copy {
    std::byte* host;
    std::byte* device;
    std::size_t bytes;
  };

  static bool inside(const std::byte* first, std::size_t bytes, const std::byte* begin,
                     std::size_t size) {
    const std::less_equal<const std::byte*> up_to;
    return size != 0 && up_to(begin, first) && up_to(first + bytes, begin + size);
  }
  void* add(std::byte* host, std::byte* device, std::size_t bytes) {
    copies_.push_back({host, device, bytes});
    return device;
  }

  Collective& collective_;
  std::vector<std::shared_ptr<Twin>> twins_;
  std::vector<Buffer> memory_;
  std::vector<Copy> copies_;
};

using MirrorPtr = std::shared_ptr<Mirror>;

class MirroredOperation final : public Operation {
 public:
  MirroredOperation(Collective& inner, MirrorPtr mirror, std::unique_ptr<Operation> operation)
      : inner_(inner), mirror_(std::move(mirror)), operation_(std::move(operation)) {}

  bool advance() override {
    if (finished_) return true;
    if (!enqueued_) {
      if (!operation_->advance()) return false;
      enqueued_ = true;
      fence_ = inner_.fence();
    }
    if (!fence_.reached()) return false;
    fence_.wait();
    mirror_->download();
    finished_ = true;
    return true;
  }
  OperationStats stats() const override { return operation_->stats(); }

 private:
  Collective& inner_;
  MirrorPtr mirror_;
  std::unique_ptr<Operation> operation_;
  Fence fence_;
  bool enqueued_ = false;
  bool finished_ = false;
};

class MakeTwin final : public Operation {
 public:
  MakeTwin(std::shared_ptr<ArenaMemory> device, std::unique_ptr<Operation> operation, Twins& twins,
           ArenaMemory& made)
      : device_(std::move(device)), operation_(std::move(operation)), twins_(twins), made_(made) {}

  bool advance() override {
    if (!operation_->advance()) return false;
    if (!device_->shared || made_.shared) return true;
    const Buffer host = host::allocate_buffer(device_->mine.bytes);
    const auto twin = std::make_shared<Twin>(Twin{host, device_->mine});
    twins_.push_back(twin);
    made_ = {{host.data, host.bytes, twin}, true};
    return true;
  }

 private:
  std::shared_ptr<ArenaMemory> device_;
  std::unique_ptr<Operation> operation_;
  Twins& twins_;
  ArenaMemory& made_;
};

class OnDevice final : public Collective {
 public:
  OnDevice(std::unique_ptr<Collective> inner, Rank rank) : inner_(std::move(inner)), rank_(rank) {}

  DeviceKind device() const noexcept override { return DeviceKind::kCpu; }
  Buffer allocate(std::size_t bytes) override { return host::allocate_buffer(bytes); }
  std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                        ArenaMemory& made) override {
    auto device = std::make_shared<ArenaMemory>();
    auto operation = inner_->make_arena(number, bytes, *device);
    return std::make_unique<MakeTwin>(std::move(device), std::move(operation), twins_, made);
  }
  void after(const Fence& ready) override { inner_->after(ready); }
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    const MirrorPtr mirror = make_mirror();
    const auto mine = at(*mirror, slices);
    return mirrored(mirror, [&] { return inner_->all_reduce(mine, reduction); });
  }
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override {
    const MirrorPtr mirror = make_mirror();
    std::vector<ScatterSlice> mine(slices.begin(), slices.end());
    for (ScatterSlice& slice : mine) {
      slice.input = mirror->at(slice.input);
      slice.output = mirror->at(slice.output);
    }
    return mirrored(mirror, [&] { return inner_->reduce_scatter(mine, reduction); });
  }
  std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) override {
    const MirrorPtr mirror = make_mirror();
    const auto mine = at(*mirror, slices);
    return mirrored(mirror, [&] { return inner_->broadcast(mine, root); });
  }
  std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) override {
    const MirrorPtr mirror = make_mirror();
    std::vector<GatherSlice> mine(slices.begin(), slices.end());
    for (GatherSlice& slice : mine) {
      const auto rank = static_cast<std::size_t>(rank_);
      slice.output = mirror->at(slice.output, sum(slice.bytes_of));  // may hold the input
      if (rank >= slice.bytes_of.size()) continue;                   // is refused
      slice.input = mirror->at(slice.input, slice.bytes_of[rank]);
    }
    return mirrored(mirror, [&] { return inner_->all_gather(mine); });
  }
  std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) override {
    const MirrorPtr mirror = make_mirror();
    std::vector<ExchangeSlice> mine(slices.begin(), slices.end());
    for (ExchangeSlice& slice : mine) {
      slice.input = mirror->at(slice.input, sum(slice.bytes_to));
      slice.output = mirror->at(slice.output, sum(slice.bytes_from));
    }
    return mirrored(mirror, [&] { return inner_->all_to_all(mine); });
  }
  std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                      std::span<std::int64_t> all) override {
    return inner_->exchange(mine, all);
  }
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override {
    const MirrorPtr mirror = make_mirror();
    const TensorView mine = mirror->at(tensor);
    return mirrored(mirror, [&] { return inner_->send(mine, to, tag); });
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override {
    const MirrorPtr mirror = make_mirror();
    const TensorView mine = mirror->at(tensor);
    return mirrored(mirror, [&] { return inner_->receive(mine, from, tag); });
  }
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override {
    const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
    return on_device(inner_->subset(number, ranks), static_cast<Rank>(mine - ranks.begin()));
  }
  std::optional<Duration> poll_interval() const override { return inner_->poll_interval(); }
  std::optional<Duration> prepare_sleep() override { return inner_->prepare_sleep(); }
  void progress(TimePoint now) override { inner_->progress(now); }
  Fence fence() override { return inner_->fence(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  static std::size_t sum(const std::vector<std::size_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  MirrorPtr make_mirror() { return std::make_shared<Mirror>(*inner_, twins_); }
  static std::vector<Slice> at(Mirror& mirror, std::span<const Slice> slices) {
    std::vector<Slice> mine(slices.begin(), slices.end());
    for (Slice& slice : mine) {
      slice.input = mirror.at(slice.input);
      slice.output = mirror.at(slice.output);
      if (slice.residual == nullptr) continue;
      const auto bytes = static_cast<std::size_t>(slice.input.numel) * sizeof(float);
      slice.residual = static_cast<float*>(mirror.at(slice.residual, bytes));
    }
    return mine;
  }
  template <typename Start>
  std::unique_ptr<Operation> mirrored(const MirrorPtr& mirror, const Start& start) {
    mirror->upload();
    return std::make_unique<MirroredOperation>(*inner_, mirror, start());
  }

  std::unique_ptr<Collective> inner_;
  Rank rank_;
  Twins twins_;
};

}  // namespace

std::unique_ptr<Collective> on_device(std::unique_ptr<Collective> inner, Rank rank) {
  return std::make_unique<OnDevice>(std::move(inner), rank);
}

}  // namespace hvd::engine::test
