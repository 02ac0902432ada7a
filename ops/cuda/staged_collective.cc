#include "ops/cuda/staged_collective.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/cuda/device.h"
#include "ops/host/arguments.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes

class StagedOperation final : public Operation {
 public:
  StagedOperation(std::shared_ptr<StagingQueue> queue, std::shared_ptr<StagingQueue::Call> call)
      : queue_(std::move(queue)), call_(std::move(call)) {}

  bool advance() override { return queue_->advance(*call_); }
  OperationStats stats() const override { return call_->stats; }

 private:
  std::shared_ptr<StagingQueue> queue_;
  std::shared_ptr<StagingQueue::Call> call_;
};

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

// Finds places in pinned memory for what a call copies. First all places, then memory for them.
class StagedCollective::Staging {
 public:
  explicit Staging(StagingQueue::Call& call) : call_(call) {}

  std::size_t add(std::size_t bytes) {
    const std::size_t place = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  void allocate(PinnedPool& pool) { call_.memory = pool.take(bytes_); }
  std::byte* at(std::size_t place) const {
    return static_cast<std::byte*>(call_.memory.data) + place;
  }
  // The tensor's copy at `place`.
  TensorView view(const TensorView& tensor, std::size_t place) const {
    return {at(place), tensor.numel, tensor.dtype, {}};
  }
  void in(const void* device, std::size_t place, std::size_t bytes) {
    call_.in.push_back({device, at(place), bytes});
  }
  void out(std::size_t place, void* device, std::size_t bytes) {
    call_.out.push_back({at(place), device, bytes});
  }

 private:
  StagingQueue::Call& call_;
  std::size_t bytes_ = 0;
};

StagedCollective::StagedCollective(int device, std::unique_ptr<Collective> host, Rank rank,
                                   int size)
    : StagedCollective(std::make_shared<StagingQueue>(device), std::move(host), rank, size) {}

StagedCollective::StagedCollective(std::shared_ptr<StagingQueue> queue,
                                   std::unique_ptr<Collective> host, Rank rank, int size)
    : queue_(std::move(queue)), host_(std::move(host)), rank_(rank), size_(size) {}

Buffer StagedCollective::allocate(std::size_t bytes) {
  return allocate_cuda_memory(queue_->stream().device(), bytes);
}

Buffer StagedCollective::allocate_result(std::size_t bytes) {
  return queue_->allocate_result(bytes);
}

void StagedCollective::write(const void* from, void* to, std::size_t bytes) {
  queue_->write(from, to, bytes);
}

void StagedCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (ready.reached()) {
    ready.wait();  // throws if its device failed
  } else if (!queue_->stream().wait_for(ready)) {
    ready_.push_back(ready);
  }
}

std::unique_ptr<Operation> StagedCollective::start(std::shared_ptr<StagingQueue::Call> call) {
  call->ready = ready_;
  queue_->add(call);
  return std::make_unique<StagedOperation>(queue_, std::move(call));
}

std::unique_ptr<Operation> StagedCollective::all_reduce(std::span<const Slice> slices,
                                                        const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  std::vector<std::size_t> places;
  for (const Slice& slice : slices) {
    places.push_back(staging.add(slice.input.bytes()));
    places.push_back(staging.add(slice.residual != nullptr ? slice.input.bytes() : 0));
  }
  staging.allocate(queue_->memory());
  std::vector<Slice> mine;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const TensorView view = staging.view(slice.input, places[2 * i]);
    mine.push_back({view, view});
    staging.in(slice.input.data, places[2 * i], slice.input.bytes());
    staging.out(places[2 * i], slice.output.data, slice.output.bytes());
    if (slice.residual == nullptr) continue;
    const std::size_t bytes = static_cast<std::size_t>(slice.input.numel) * sizeof(float);
    mine.back().residual = reinterpret_cast<float*>(staging.at(places[2 * i + 1]));
    staging.in(slice.residual, places[2 * i + 1], bytes);
    staging.out(places[2 * i + 1], slice.residual, bytes);
  }
  call->start = [this, mine, reduction] { return host_->all_reduce(mine, reduction); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                            const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, rank_, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  std::vector<std::size_t> places;
  for (const ScatterSlice& slice : slices) {
    places.push_back(staging.add(slice.input.bytes()));
    places.push_back(staging.add(slice.output.bytes()));
  }
  staging.allocate(queue_->memory());
  std::vector<ScatterSlice> mine(slices.begin(), slices.end());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const ScatterSlice& slice = slices[i];
    mine[i].input = staging.view(slice.input, places[2 * i]);
    mine[i].output = staging.view(slice.output, places[2 * i + 1]);
    staging.in(slice.input.data, places[2 * i], slice.input.bytes());
    staging.out(places[2 * i + 1], slice.output.data, slice.output.bytes());
  }
  call->start = [this, mine, reduction] { return host_->reduce_scatter(mine, reduction); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  std::vector<std::size_t> places;
  for (const Slice& slice : slices) places.push_back(staging.add(slice.input.bytes()));
  staging.allocate(queue_->memory());
  std::vector<Slice> mine;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const TensorView view = staging.view(slices[i].input, places[i]);
    mine.push_back({view, view});
    if (root == rank_) staging.in(slices[i].input.data, places[i], slices[i].input.bytes());
    staging.out(places[i], slices[i].output.data, slices[i].output.bytes());
  }
  call->start = [this, mine, root] { return host_->broadcast(mine, root); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  const auto mine_of = [&](const GatherSlice& slice) {
    return slice.bytes_of[static_cast<std::size_t>(rank_)];
  };
  std::vector<std::size_t> places;
  for (const GatherSlice& slice : slices) {
    places.push_back(staging.add(mine_of(slice)));
    places.push_back(staging.add(sum(slice.bytes_of)));
  }
  staging.allocate(queue_->memory());
  std::vector<GatherSlice> mine(slices.begin(), slices.end());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    mine[i].input = staging.at(places[2 * i]);
    mine[i].output = staging.at(places[2 * i + 1]);
    staging.in(slices[i].input, places[2 * i], mine_of(slices[i]));
    staging.out(places[2 * i + 1], slices[i].output, sum(slices[i].bytes_of));
  }
  call->start = [this, mine] { return host_->all_gather(mine); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, rank_, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  std::vector<std::size_t> places;
  for (const ExchangeSlice& slice : slices) {
    places.push_back(staging.add(sum(slice.bytes_to)));
    places.push_back(staging.add(sum(slice.bytes_from)));
  }
  staging.allocate(queue_->memory());
  std::vector<ExchangeSlice> mine(slices.begin(), slices.end());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    mine[i].input = staging.at(places[2 * i]);
    mine[i].output = staging.at(places[2 * i + 1]);
    staging.in(slices[i].input, places[2 * i], sum(slices[i].bytes_to));
    staging.out(places[2 * i + 1], slices[i].output, sum(slices[i].bytes_from));
  }
  call->start = [this, mine] { return host_->all_to_all(mine); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::exchange(std::span<const std::int64_t> mine,
                                                      std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), size_);
  auto call = std::make_shared<StagingQueue::Call>();
  call->start = [this, mine, all] { return host_->exchange(mine, all); };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::send(const TensorView& tensor, Rank to, int tag) {
  host::check_rank("send to", to, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  const std::size_t place = staging.add(tensor.bytes());
  staging.allocate(queue_->memory());
  staging.in(tensor.data, place, tensor.bytes());
  call->start = [this, view = staging.view(tensor, place), to, tag] {
    return host_->send(view, to, tag);
  };
  return start(std::move(call));
}

std::unique_ptr<Operation> StagedCollective::receive(const TensorView& tensor, Rank from, int tag) {
  host::check_rank("receive from", from, size_);
  auto call = std::make_shared<StagingQueue::Call>();
  Staging staging(*call);
  const std::size_t place = staging.add(tensor.bytes());
  staging.allocate(queue_->memory());
  staging.out(place, tensor.data, tensor.bytes());
  call->start = [this, view = staging.view(tensor, place), from, tag] {
    return host_->receive(view, from, tag);
  };
  return start(std::move(call));
}

std::unique_ptr<Collective> StagedCollective::subset(std::uint32_t number,
                                                     std::span<const Rank> ranks) {
  return staged_subset(number, ranks);
}

std::unique_ptr<StagedCollective> StagedCollective::staged_subset(std::uint32_t number,
                                                                  std::span<const Rank> ranks) {
  const Rank rank = host::check_subset(ranks, rank_, size_);
  auto host = host_->subset(number, ranks);
  return std::unique_ptr<StagedCollective>(
      new StagedCollective(queue_, std::move(host), rank, static_cast<int>(ranks.size())));
}

std::optional<Duration> StagedCollective::poll_interval() const {
  return earlier(queue_->poll_interval(), host_->poll_interval());
}

std::optional<Duration> StagedCollective::prepare_sleep() {
  return earlier(queue_->poll_interval(), host_->prepare_sleep());
}

}  // namespace hvd::engine
