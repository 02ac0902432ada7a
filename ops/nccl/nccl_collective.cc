#include "ops/nccl/nccl_collective.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/host/arguments.h"
#include "ops/nccl/calls.h"
#include "ops/nccl/packed_batch.h"
#include "ops/nccl/reduction.h"

namespace hvd {
namespace {

class EnqueuedOperation : public Operation {
 public:
  EnqueuedOperation(std::shared_ptr<LaunchQueue> queue, std::shared_ptr<LaunchQueue::Call> call,
                    std::size_t bytes)
      : queue_(std::move(queue)), call_(std::move(call)), bytes_(bytes) {}

  bool advance() override {
    if (!call_->over) queue_->pump();
    return call_->over;
  }
  OperationStats stats() const override { return {.packed_bytes = bytes_}; }

 protected:
  LaunchQueue& queue() { return *queue_; }

 private:
  std::shared_ptr<LaunchQueue> queue_;
  std::shared_ptr<LaunchQueue::Call> call_;
  std::size_t bytes_;
};

// Pinned: the device copies while the host goes on.
struct Staging {
  Buffer host;    // this rank's numbers, then everyone's
  Buffer device;  // the same
  std::size_t mine_bytes = 0;
  std::size_t all_bytes = 0;
};

class ExchangeOperation final : public EnqueuedOperation {
 public:
  ExchangeOperation(std::shared_ptr<LaunchQueue> queue, std::shared_ptr<LaunchQueue::Call> call,
                    std::shared_ptr<Staging> staging, std::span<std::int64_t> all)
      : EnqueuedOperation(std::move(queue), std::move(call), staging->mine_bytes),
        staging_(std::move(staging)),
        all_(all) {}

  bool advance() override {
    if (done_) return true;
    if (!EnqueuedOperation::advance()) return false;
    if (arrived_.state() == nullptr) arrived_ = queue().stream().fence();
    if (!arrived_.reached()) return false;
    arrived_.wait();  // throws if the device failed
    const auto* host = static_cast<const std::byte*>(staging_->host.data);
    std::memcpy(all_.data(), host + staging_->mine_bytes, staging_->all_bytes);
    done_ = true;
    return true;
  }

 private:
  std::shared_ptr<Staging> staging_;
  std::span<std::int64_t> all_;
  Fence arrived_;
  bool done_ = false;
};

template <typename Slices>
std::size_t input_bytes(const Slices& slices) {
  std::size_t bytes = 0;
  for (const auto& slice : slices) bytes += slice.input.bytes();
  return bytes;
}

void expect_no_residuals(std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    if (slice.residual == nullptr) continue;
    throw UnsupportedError("error feedback of a CUDA tensor: its residual would be on the host");
  }
}

[[noreturn]] void refuse_transfer(const char* what) {
  throw UnsupportedError(std::string(what) +
                         " of a CUDA tensor: NCCL would run it in the order of the collectives; "
                         "move the tensor to the host for it");
}

}  // namespace

NcclCollective::NcclCollective(std::shared_ptr<LaunchQueue> queue,
                               std::shared_ptr<NcclCommunicator> communicator)
    : queue_(std::move(queue)), communicator_(std::move(communicator)) {}

Buffer NcclCollective::allocate(std::size_t bytes) {
  return allocate_cuda_memory(communicator_->device(), bytes);
}

Buffer NcclCollective::fusion_buffer(std::size_t bytes) {
  if (fusion_.bytes < bytes) fusion_ = allocate(std::max(bytes, 2 * fusion_.bytes));
  return fusion_;
}

void NcclCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (ready.reached()) {
    ready.wait();  // throws if its device failed
  } else if (!queue_->stream().wait_for(ready)) {
    ready_.push_back(ready);
  }
}

std::shared_ptr<LaunchQueue::Call> NcclCollective::enqueue(Stages stages) {
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = communicator_;
  call->ready = ready_;
  call->begin = [before = std::move(stages.before), calls = std::move(stages.calls)](
                    NcclCommunicator& communicator, cudaStream_t stream) {
    if (before != nullptr) before(stream);
    communicator.begin([&](ncclComm_t comm) { calls({communicator.api(), comm, stream}); });
  };
  call->end = std::move(stages.after);
  queue_->add(call);
  return call;
}

std::unique_ptr<Operation> NcclCollective::start(Stages stages, std::size_t bytes) {
  return std::make_unique<EnqueuedOperation>(queue_, enqueue(std::move(stages)), bytes);
}

std::unique_ptr<Operation> NcclCollective::all_reduce(std::span<const Slice> slices,
                                                      const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (slices.empty()) return start({.calls = [](const NcclTarget&) {}}, 0);
  expect_no_residuals(slices);
  const DType dtype = slices.front().input.dtype;
  const NcclReduction as = nccl_reduction(dtype, reduction, communicator_->size());
  const std::size_t bytes = input_bytes(slices);
  if (as.needs_buffer(dtype) || (slices.size() > 1 && bytes <= kMostPacked)) {
    const auto batch =
        std::make_shared<PackedBatch>(slices, as, communicator_->device(),
                                      fusion_buffer(PackedBatch::bytes_needed(slices, as.wire)));
    return start({.before = [batch](cudaStream_t stream) { batch->pack(stream); },
                  .calls =
                      [batch, as](const NcclTarget& target) {
                        all_reduce_elements(target, as, batch->data(), batch->data(),
                                            batch->numel());
                      },
                  .after = [batch](cudaStream_t stream) { batch->unpack(stream); }},
                 bytes);
  }
  return start(
      {.calls =
           [mine = std::vector(slices.begin(), slices.end()), as](const NcclTarget& target) {
             for (const Slice& slice : mine) {
               all_reduce_elements(target, as, slice.input.data, slice.output.data,
                                   static_cast<std::size_t>(slice.input.numel));
             }
           }},
      bytes);
}

std::unique_ptr<Operation> NcclCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                          const Reduction& reduction) {
  const int size = communicator_->size();
  host::check_reduce_scatter(slices, reduction, communicator_->rank(), size);
  if (slices.empty()) return start({.calls = [](const NcclTarget&) {}}, 0);
  const DType dtype = slices.front().input.dtype;
  const NcclReduction as = nccl_reduction(dtype, reduction, size);
  const std::size_t bytes = input_bytes(slices);
  std::vector<ScatterSlice> mine(slices.begin(), slices.end());
  Stages stages;
  if (as.needs_buffer(dtype)) {
    const int device = communicator_->device();
    const Buffer buffer = fusion_buffer(bytes);
    std::vector<CopyPiece> in;
    std::vector<CopyPiece> out;
    auto* place = static_cast<std::byte*>(buffer.data);
    for (ScatterSlice& slice : mine) {
      in.push_back({slice.input.data, place, slice.input.numel});
      out.push_back({slice.output.data, slice.output.data, slice.output.numel});
      slice.input.data = place;
      place += slice.input.bytes();
    }
    stages.before = [in, device, dtype, as, buffer](cudaStream_t stream) {
      copy_pieces(device, stream, {dtype, dtype, as.before}, in);
    };
    stages.after = [out, device, dtype, as](cudaStream_t stream) {
      copy_pieces(device, stream, {dtype, dtype, as.after}, out);
    };
  }
  stages.calls = [mine = std::move(mine), as](const NcclTarget& target) {
    for (const ScatterSlice& slice : mine) scatter_slice(target, as, slice);
  };
  return start(std::move(stages), bytes);
}

std::unique_ptr<Operation> NcclCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, communicator_->size());
  return start(
      {.calls =
           [mine = std::vector(slices.begin(), slices.end()), root](const NcclTarget& target) {
             for (const Slice& slice : mine) {
               broadcast_bytes(target, slice.input.data, slice.output.data, slice.input.bytes(),
                               root);
             }
           }},
      root == communicator_->rank() ? input_bytes(slices) : 0);
}

std::unique_ptr<Operation> NcclCollective::all_gather(std::span<const GatherSlice> slices) {
  const Rank rank = communicator_->rank();
  host::check_all_gather(slices, communicator_->size());
  std::size_t bytes = 0;
  for (const GatherSlice& slice : slices) bytes += slice.bytes_of[static_cast<std::size_t>(rank)];
  return start(
      {.calls =
           [mine = std::vector(slices.begin(), slices.end()), rank](const NcclTarget& target) {
             for (const GatherSlice& slice : mine) gather_slice(target, slice, rank);
           }},
      bytes);
}

std::unique_ptr<Operation> NcclCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, communicator_->rank(), communicator_->size());
  std::size_t bytes = 0;
  for (const ExchangeSlice& slice : slices) {
    for (const std::size_t to : slice.bytes_to) bytes += to;
  }
  return start({.calls =
                    [mine = std::vector(slices.begin(), slices.end())](const NcclTarget& target) {
                      for (const ExchangeSlice& slice : mine) exchange_slice(target, slice);
                    }},
               bytes);
}

std::unique_ptr<Operation> NcclCollective::exchange(std::span<const std::int64_t> mine,
                                                    std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), communicator_->size());
  auto staging = std::make_shared<Staging>();
  staging->mine_bytes = mine.size_bytes();
  staging->all_bytes = all.size_bytes();
  const std::size_t bytes = mine.size_bytes() + all.size_bytes();
  staging->host = allocate_pinned_memory(communicator_->device(), bytes);
  staging->device = allocate_cuda_memory(communicator_->device(), bytes);
  if (!mine.empty()) std::memcpy(staging->host.data, mine.data(), mine.size_bytes());
  // A copy cannot be part of a group of NCCL calls: it goes before, and the other one behind.
  auto call = enqueue(
      {.before =
           [staging](cudaStream_t stream) {
             check_cuda(cudaMemcpyAsync(staging->device.data, staging->host.data,
                                        staging->mine_bytes, cudaMemcpyHostToDevice, stream),
                        "cudaMemcpyAsync");
           },
       .calls =
           [staging](const NcclTarget& target) {
             auto* device = static_cast<std::byte*>(staging->device.data);
             gather_bytes(target, device, device + staging->mine_bytes, staging->mine_bytes);
           },
       .after =
           [staging](cudaStream_t stream) {
             const std::size_t begin = staging->mine_bytes;
             check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(staging->host.data) + begin,
                                        static_cast<std::byte*>(staging->device.data) + begin,
                                        staging->all_bytes, cudaMemcpyDeviceToHost, stream),
                        "cudaMemcpyAsync");
           }});
  return std::make_unique<ExchangeOperation>(queue_, std::move(call), std::move(staging), all);
}

std::unique_ptr<Operation> NcclCollective::send(const TensorView&, Rank, int) {
  refuse_transfer("send");
}

std::unique_ptr<Operation> NcclCollective::receive(const TensorView&, Rank, int) {
  refuse_transfer("receive");
}

std::unique_ptr<Collective> NcclCollective::subset(std::uint32_t, std::span<const Rank> ranks) {
  const Rank rank = host::check_subset(ranks, communicator_->rank(), communicator_->size());
  std::vector<Rank> without;
  for (Rank r = 0; r < communicator_->size(); ++r) {
    if (std::find(ranks.begin(), ranks.end(), r) == ranks.end()) without.push_back(r);
  }
  NcclCommunicator::Place place = communicator_->place();
  place.rank = rank;
  place.size = static_cast<int>(ranks.size());
  auto child = std::make_shared<NcclCommunicator>(communicator_->api(), place);
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = communicator_;
  call->after_all = true;
  call->makes = child;
  call->begin = [without, child](NcclCommunicator& communicator, cudaStream_t) {
    communicator.begin_shrink(without, child);
  };
  queue_->add(std::move(call));
  return std::make_unique<NcclCollective>(queue_, std::move(child));
}

}  // namespace hvd
