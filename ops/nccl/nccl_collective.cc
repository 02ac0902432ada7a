#include "ops/nccl/nccl_collective.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/host/arguments.h"
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

template <typename T>
bool all_equal(const std::vector<T>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

template <typename Slices>
std::size_t input_bytes(const Slices& slices) {
  std::size_t bytes = 0;
  for (const auto& slice : slices) bytes += slice.input.bytes();
  return bytes;
}

void gather(const NcclApi& api, const GatherSlice& slice, Rank rank, ncclComm_t comm,
            cudaStream_t stream) {
  const std::vector<std::size_t>& bytes_of = slice.bytes_of;
  if (all_equal(bytes_of)) {
    check_nccl(api, api.all_gather(slice.input, slice.output, bytes_of[0], ncclUint8, comm, stream),
               "ncclAllGather", comm);
    return;
  }
  auto* to = static_cast<std::byte*>(slice.output);
  for (std::size_t root = 0; root < bytes_of.size(); ++root) {
    const void* from = static_cast<Rank>(root) == rank ? slice.input : to;
    check_nccl(
        api,
        api.broadcast(from, to, bytes_of[root], ncclUint8, static_cast<int>(root), comm, stream),
        "ncclBroadcast", comm);
    to += bytes_of[root];
  }
}

void scatter(const NcclApi& api, const ScatterSlice& slice, const NcclReduction& as,
             ncclComm_t comm, cudaStream_t stream) {
  const std::vector<std::int64_t>& numel_of = slice.numel_of;
  const auto count = [&](std::int64_t numel) {
    return static_cast<std::size_t>(numel) * as.factor;
  };
  if (all_equal(numel_of)) {
    check_nccl(api,
               api.reduce_scatter(slice.input.data, slice.output.data, count(numel_of[0]), as.type,
                                  as.op, comm, stream),
               "ncclReduceScatter", comm);
    return;
  }
  const auto* from = static_cast<const std::byte*>(slice.input.data);
  for (std::size_t root = 0; root < numel_of.size(); ++root) {
    check_nccl(api,
               api.reduce(from, slice.output.data, count(numel_of[root]), as.type, as.op,
                          static_cast<int>(root), comm, stream),
               "ncclReduce", comm);
    from += static_cast<std::size_t>(numel_of[root]) * size_of(slice.input.dtype);
  }
}

void swap_all(const NcclApi& api, const ExchangeSlice& slice, ncclComm_t comm,
              cudaStream_t stream) {
  const auto* from = static_cast<const std::byte*>(slice.input);
  auto* to = static_cast<std::byte*>(slice.output);
  for (std::size_t peer = 0; peer < slice.bytes_to.size(); ++peer) {
    const auto rank = static_cast<int>(peer);
    if (slice.bytes_to[peer] != 0) {
      check_nccl(api, api.send(from, slice.bytes_to[peer], ncclUint8, rank, comm, stream),
                 "ncclSend", comm);
    }
    if (slice.bytes_from[peer] != 0) {
      check_nccl(api, api.recv(to, slice.bytes_from[peer], ncclUint8, rank, comm, stream),
                 "ncclRecv", comm);
    }
    from += slice.bytes_to[peer];
    to += slice.bytes_from[peer];
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

void NcclCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (ready.reached()) {
    ready.wait();  // throws if its device failed
  } else if (!queue_->stream().wait_for(ready)) {
    ready_.push_back(ready);
  }
}

std::shared_ptr<LaunchQueue::Call> NcclCollective::enqueue(Calls calls) {
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = communicator_;
  call->ready = ready_;
  call->begin = [calls = std::move(calls)](NcclCommunicator& communicator, cudaStream_t stream) {
    communicator.begin([&](ncclComm_t comm) { calls(comm, stream); });
  };
  queue_->add(call);
  return call;
}

std::unique_ptr<Operation> NcclCollective::start(Calls calls, std::size_t bytes) {
  return std::make_unique<EnqueuedOperation>(queue_, enqueue(std::move(calls)), bytes);
}

std::unique_ptr<Operation> NcclCollective::all_reduce(std::span<const Slice> slices,
                                                      const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (slices.empty()) return start([](ncclComm_t, cudaStream_t) {}, 0);
  const DType dtype = slices.front().input.dtype;
  const NcclReduction as = nccl_reduction(dtype, reduction, communicator_->size());
  return start(
      [&api = communicator_->api(), mine = std::vector(slices.begin(), slices.end()), as](
          ncclComm_t comm, cudaStream_t stream) {
        NcclReduction scaled = as;
        const NcclScaledSum op(api, scaled, comm);
        for (const Slice& slice : mine) {
          const auto count = static_cast<std::size_t>(slice.input.numel) * scaled.factor;
          check_nccl(api,
                     api.all_reduce(slice.input.data, slice.output.data, count, scaled.type,
                                    scaled.op, comm, stream),
                     "ncclAllReduce", comm);
        }
      },
      input_bytes(slices));
}

std::unique_ptr<Operation> NcclCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                          const Reduction& reduction) {
  const int size = communicator_->size();
  host::check_reduce_scatter(slices, reduction, communicator_->rank(), size);
  if (slices.empty()) return start([](ncclComm_t, cudaStream_t) {}, 0);
  const NcclReduction as = nccl_reduction(slices.front().input.dtype, reduction, size);
  return start(
      [&api = communicator_->api(), mine = std::vector(slices.begin(), slices.end()), as](
          ncclComm_t comm, cudaStream_t stream) {
        NcclReduction scaled = as;
        const NcclScaledSum op(api, scaled, comm);
        for (const ScatterSlice& slice : mine) scatter(api, slice, scaled, comm, stream);
      },
      input_bytes(slices));
}

std::unique_ptr<Operation> NcclCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, communicator_->size());
  return start(
      [&api = communicator_->api(), mine = std::vector(slices.begin(), slices.end()), root](
          ncclComm_t comm, cudaStream_t stream) {
        for (const Slice& slice : mine) {
          check_nccl(api,
                     api.broadcast(slice.input.data, slice.output.data, slice.input.bytes(),
                                   ncclUint8, root, comm, stream),
                     "ncclBroadcast", comm);
        }
      },
      root == communicator_->rank() ? input_bytes(slices) : 0);
}

std::unique_ptr<Operation> NcclCollective::all_gather(std::span<const GatherSlice> slices) {
  const Rank rank = communicator_->rank();
  host::check_all_gather(slices, communicator_->size());
  std::size_t bytes = 0;
  for (const GatherSlice& slice : slices) bytes += slice.bytes_of[static_cast<std::size_t>(rank)];
  return start(
      [&api = communicator_->api(), mine = std::vector(slices.begin(), slices.end()), rank](
          ncclComm_t comm, cudaStream_t stream) {
        for (const GatherSlice& slice : mine) gather(api, slice, rank, comm, stream);
      },
      bytes);
}

std::unique_ptr<Operation> NcclCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, communicator_->rank(), communicator_->size());
  std::size_t bytes = 0;
  for (const ExchangeSlice& slice : slices) {
    for (const std::size_t to : slice.bytes_to) bytes += to;
  }
  return start(
      [&api = communicator_->api(), mine = std::vector(slices.begin(), slices.end())](
          ncclComm_t comm, cudaStream_t stream) {
        for (const ExchangeSlice& slice : mine) swap_all(api, slice, comm, stream);
      },
      bytes);
}

std::unique_ptr<Operation> NcclCollective::exchange(std::span<const std::int64_t> mine,
                                                    std::span<std::int64_t> all) {
  auto staging = std::make_shared<Staging>();
  host::check_exchange(mine.size(), all.size(), communicator_->size());
  staging->mine_bytes = mine.size_bytes();
  staging->all_bytes = all.size_bytes();
  const std::size_t bytes = mine.size_bytes() + all.size_bytes();
  staging->host = allocate_pinned_memory(communicator_->device(), bytes);
  staging->device = allocate_cuda_memory(communicator_->device(), bytes);
  if (!mine.empty()) std::memcpy(staging->host.data, mine.data(), mine.size_bytes());
  // A copy cannot be part of a group of NCCL calls: it goes before, and the other one behind.
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = communicator_;
  call->begin = [staging](NcclCommunicator& communicator, cudaStream_t stream) {
    auto* device = static_cast<std::byte*>(staging->device.data);
    check_cuda(cudaMemcpyAsync(device, staging->host.data, staging->mine_bytes,
                               cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    const NcclApi& api = communicator.api();
    communicator.begin([&](ncclComm_t comm) {
      check_nccl(api,
                 api.all_gather(device, device + staging->mine_bytes, staging->mine_bytes,
                                ncclUint8, comm, stream),
                 "ncclAllGather", comm);
    });
  };
  call->end = [staging](cudaStream_t stream) {
    auto* host = static_cast<std::byte*>(staging->host.data) + staging->mine_bytes;
    const auto* device = static_cast<std::byte*>(staging->device.data) + staging->mine_bytes;
    check_cuda(cudaMemcpyAsync(host, device, staging->all_bytes, cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync");
  };
  queue_->add(call);
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
