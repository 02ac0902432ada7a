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
#include "ops/nccl/enqueued_operation.h"
#include "ops/nccl/make_nccl_arena.h"
#include "ops/nccl/neighbours.h"
#include "ops/nccl/packed_batch.h"
#include "ops/nccl/reduction.h"

namespace hvd::engine {
namespace {

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

void copy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

}  // namespace

NcclCollective::NcclCollective(std::shared_ptr<LaunchQueue> queue,
                               std::shared_ptr<NcclCommunicator> communicator)
    : queue_(std::move(queue)),
      communicator_(std::move(communicator)),
      pinned_(communicator_->device()),
      packing_(communicator_->api(), communicator_->device(), queue_) {}

Buffer NcclCollective::allocate(std::size_t bytes) {
  return allocate_cuda_memory(communicator_->device(), bytes);
}

Buffer NcclCollective::allocate_result(std::size_t bytes) {
  Buffer memory = queue_->allocate(bytes);
  ready_.push_back(queue_->end_of_packing());
  return memory;
}

void NcclCollective::write(const void* from, void* to, std::size_t bytes) {
  ready_.push_back(queue_->write(from, to, bytes));
}

void NcclCollective::after(const Fence& ready) {
  if (!ready_.empty() && ready_.back().state() == ready.state()) return;
  if (ready.reached()) {
    ready.wait();  // throws if its device failed
  } else {
    ready_.push_back(ready);
  }
}

Fence NcclCollective::fence() {
  return queue_->fence(communicator_, in_place_);
}

std::shared_ptr<LaunchQueue::Call> NcclCollective::enqueue(Stages stages) {
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = stages.communicator != nullptr ? stages.communicator : communicator_;
  // Once: what begins later on this device begins behind this call.
  call->ready = std::exchange(ready_, {});
  if (stages.pack != nullptr) {
    call->pack = [turn = stages.turn, pack = std::move(stages.pack)](CudaStream& stream) {
      if (turn != nullptr) stream.wait_for(turn->free);
      pack(stream.get());
    };
  }
  if (stages.unpack != nullptr) {
    call->unpack = [turn = stages.turn, unpack = std::move(stages.unpack)](CudaStream& stream) {
      unpack(stream.get());
      if (turn != nullptr) turn->free = stream.fence();
    };
  }
  call->begin = [calls = std::move(stages.calls), memory = std::move(stages.memory),
                 to = call->communicator](NcclCommunicator& communicator, cudaStream_t stream) {
    if (memory != nullptr && !memory->registered()) memory->register_with(to);
    if (calls == nullptr) return;
    communicator.begin([&](ncclComm_t comm) { calls({communicator.api(), comm, stream}); });
  };
  queue_->add(call);
  return call;
}

std::unique_ptr<Operation> NcclCollective::start(Stages stages, std::size_t bytes) {
  return std::make_unique<EnqueuedOperation>(queue_, enqueue(std::move(stages)), bytes);
}

std::unique_ptr<Operation> NcclCollective::make_arena(std::uint64_t number, std::size_t bytes,
                                                      ArenaMemory& made) {
  if (in_place_ == nullptr) in_place_ = make_communicator({}, communicator_->place());
  const auto arena = std::make_shared<host::MappedArena>();
  arenas_.add(number, arena);
  return std::make_unique<MakeNcclArena>(
      allocate_arena(bytes), arena, made, queue_,
      MakeNcclArena::Steps{
          .agree = [this](std::span<std::int64_t> has_it) { return minimum(has_it); },
          .register_memory =
              [this](std::shared_ptr<NcclMemory> memory) {
                return start({.memory = std::move(memory), .communicator = in_place_}, 0);
              }});
}

std::shared_ptr<NcclMemory> NcclCollective::allocate_arena(std::size_t bytes) const {
  try {
    return std::make_shared<NcclMemory>(
        allocate_nccl_memory(communicator_->api(), communicator_->device(), bytes));
  } catch (const Error& error) {
    host::tell_of_no_arena(bytes, error.what());
    return nullptr;
  }
}

std::unique_ptr<Operation> NcclCollective::all_reduce(std::span<const Slice> slices,
                                                      const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  const bool placed = arenas_.find(slices, 0) != nullptr;
  if (slices.empty()) return start({.calls = [](const NcclTarget&) {}}, 0);
  expect_no_residuals(slices);
  const DType dtype = slices.front().input.dtype;
  const NcclReduction as = nccl_reduction(dtype, reduction, communicator_->size());
  const std::size_t bytes = input_bytes(slices);
  auto mine = placed ? join_neighbours(slices) : std::vector(slices.begin(), slices.end());
  const std::size_t most_calls = placed ? kMostRanges : 1;
  if (!mine.empty() &&
      (as.needs_buffer(dtype) || (mine.size() > most_calls && bytes <= kMostPacked))) {
    return reduce_packed(mine, as);
  }
  return start({.calls =
                    [mine = std::move(mine), as](const NcclTarget& target) {
                      for (const Slice& slice : mine) {
                        all_reduce_elements(target, as, slice.input.data, slice.output.data,
                                            static_cast<std::size_t>(slice.input.numel));
                      }
                    },
                .communicator = placed ? in_place_ : nullptr},
               placed ? 0 : bytes);
}

std::unique_ptr<Operation> NcclCollective::reduce_packed(std::span<const Slice> slices,
                                                         const NcclReduction& as) {
  std::size_t numel = 0;
  for (const Slice& slice : slices) numel += static_cast<std::size_t>(slice.input.numel);
  const auto turn = packing_.take(PackedBatch::bytes_needed(slices, as.wire));
  const auto batch =
      std::make_shared<PackedBatch>(slices, as, communicator_->device(), turn->memory->buffer());
  return start({.pack = [batch](cudaStream_t stream) { batch->pack(stream); },
                .calls =
                    [batch, as](const NcclTarget& target) {
                      all_reduce_elements(target, as, batch->data(), batch->data(), batch->numel());
                    },
                .unpack = [batch](cudaStream_t stream) { batch->unpack(stream); },
                .turn = turn,
                .memory = turn->memory},
               numel * size_of(as.wire));
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
    stages.turn = packing_.take(bytes);
    stages.memory = stages.turn->memory;
    std::vector<CopyPiece> in;
    std::vector<CopyPiece> out;
    auto* place = static_cast<std::byte*>(stages.memory->buffer().data);
    for (ScatterSlice& slice : mine) {
      in.push_back({slice.input.data, place, slice.input.numel});
      out.push_back({slice.output.data, slice.output.data, slice.output.numel});
      slice.input.data = place;
      place += slice.input.bytes();
    }
    stages.pack = [in, device, dtype, as](cudaStream_t stream) {
      copy_pieces(device, stream, {dtype, dtype, as.before}, in);
    };
    stages.unpack = [out, device, dtype, as](cudaStream_t stream) {
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
  const std::size_t begin = mine.size_bytes();
  return by_way_of_device(mine, begin, all, [begin](const NcclTarget& target, std::byte* device) {
    gather_bytes(target, device, device + begin, begin);
  });
}

std::unique_ptr<Operation> NcclCollective::minimum(std::span<std::int64_t> numbers) {
  const NcclReduction least = {.type = ncclInt64, .op = ncclMin};
  return by_way_of_device(numbers, 0, numbers,
                          [least, count = numbers.size()](const NcclTarget& target, std::byte* at) {
                            all_reduce_elements(target, least, at, at, count);
                          });
}

std::unique_ptr<Operation> NcclCollective::by_way_of_device(
    std::span<const std::int64_t> mine, std::size_t begin, std::span<std::int64_t> all,
    std::function<void(const NcclTarget&, std::byte* device)> calls) {
  auto staging = std::make_shared<ExchangeStaging>();
  staging->begin = begin;
  staging->mine_bytes = mine.size_bytes();
  staging->all_bytes = all.size_bytes();
  const std::size_t bytes = std::max(mine.size_bytes(), begin + all.size_bytes());
  staging->host = pinned_.take(bytes);
  staging->device = queue_->allocate(bytes);
  if (!mine.empty()) std::memcpy(staging->host.data, mine.data(), mine.size_bytes());
  // A copy cannot be part of a group of NCCL calls: it goes before, and the other one behind.
  auto call =
      enqueue({.pack =
                   [staging](cudaStream_t stream) {
                     copy_async(staging->device.data, staging->host.data, staging->mine_bytes,
                                cudaMemcpyHostToDevice, stream);
                   },
               .calls =
                   [staging, calls = std::move(calls)](const NcclTarget& target) {
                     calls(target, static_cast<std::byte*>(staging->device.data));
                   },
               .unpack =
                   [staging](cudaStream_t stream) {
                     copy_async(static_cast<std::byte*>(staging->host.data) + staging->begin,
                                static_cast<std::byte*>(staging->device.data) + staging->begin,
                                staging->all_bytes, cudaMemcpyDeviceToHost, stream);
                   }});
  return std::make_unique<ExchangeOperation>(queue_, std::move(call), std::move(staging), all);
}

std::unique_ptr<Operation> NcclCollective::send(const TensorView&, Rank, int) {
  refuse_transfer("send");
}

std::unique_ptr<Operation> NcclCollective::receive(const TensorView&, Rank, int) {
  refuse_transfer("receive");
}

std::shared_ptr<NcclCommunicator> NcclCollective::make_communicator(
    std::vector<Rank> without, const NcclCommunicator::Place& place) {
  auto child = std::make_shared<NcclCommunicator>(communicator_->api(), place);
  auto call = std::make_shared<LaunchQueue::Call>();
  call->communicator = communicator_;
  call->after_all = true;
  call->makes = child;
  call->begin = [without = std::move(without), child](NcclCommunicator& communicator,
                                                      cudaStream_t) {
    communicator.begin_shrink(without, child);
  };
  queue_->add(std::move(call));
  return child;
}

std::unique_ptr<Collective> NcclCollective::subset(std::uint32_t, std::span<const Rank> ranks) {
  NcclCommunicator::Place place = communicator_->place();
  place.rank = host::check_subset(ranks, communicator_->rank(), communicator_->size());
  place.size = static_cast<int>(ranks.size());
  std::vector<Rank> without;
  for (Rank r = 0; r < communicator_->size(); ++r) {
    if (std::find(ranks.begin(), ranks.end(), r) == ranks.end()) without.push_back(r);
  }
  return std::make_unique<NcclCollective>(queue_, make_communicator(std::move(without), place));
}

}  // namespace hvd::engine
