#include "test/support/sim/sim_collective.h"

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/base/status.h"
#include "ops/host/reduce.h"
#include "ops/host/wire.h"

namespace hvd::engine {
namespace {

using Lane = SimMeetings::Lane;

std::string text_of(const TensorView& view) {
  return " " + std::to_string(view.numel) + " " + std::string(name_of(view.dtype));
}

std::string text_of(const Reduction& reduction) {
  return std::string(" ") + std::string(name_of(reduction.op)) + " " +
         std::string(name_of(reduction.wire)) + " " + std::to_string(reduction.prescale) + " " +
         std::to_string(reduction.postscale) + ":";
}

std::string text_of(const auto& counts) {
  std::string text = " of";
  for (const auto count : counts) text += " " + std::to_string(count);
  return text;
}

Bytes bytes_of(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + bytes};
}

void copy(const void* from, void* to, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

// Appends to what `to` points at.
void put(const Bytes& bytes, std::byte*& to) {
  copy(bytes.data(), to, bytes.size());
  to += bytes.size();
}

Bytes packed(const Slice& slice, const Reduction& reduction) {
  if (reduction.wire == WireFormat::kNone) return bytes_of(slice.input.data, slice.input.bytes());
  Bytes encoded(host::wire_bytes(reduction.wire, slice.input.numel));
  host::encode(reduction.wire, slice.input.dtype, slice.input.data, reduction.prescale,
               slice.residual, slice.input.numel, encoded.data());
  return encoded;
}

// Of what all ranks have packed of a slice.
Bytes reduced(const TensorView& view, const Reduction& reduction, std::span<const SimParts> by_rank,
              std::size_t slice) {
  std::vector<Bytes> inputs;
  std::vector<const void*> pointers;
  const bool encoded = reduction.wire != WireFormat::kNone;
  for (const SimParts& parts : by_rank) {
    Bytes& input = inputs.emplace_back(parts[slice]);
    if (encoded) {
      input.resize(view.bytes());
      host::decode(reduction.wire, parts[slice].data(), view.dtype, input.data(), view.numel);
    }
    pointers.push_back(input.data());
  }
  const double prescale = encoded ? 1.0 : reduction.prescale;  // or done by packed()
  Bytes result(view.bytes());
  if (reduction.op == ReduceOp::kAdasum) {
    host::adasum(view.dtype, pointers, result.data(), view.numel, prescale, reduction.postscale);
  } else {
    host::reduce(view.dtype, reduction.op, pointers, result.data(), view.numel, prescale,
                 reduction.postscale);
  }
  return result;
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

// Of the call's contribution as it would travel.
std::size_t bytes_packed(std::span<const Slice> slices, const Reduction& reduction) {
  std::size_t bytes = 0;
  for (const Slice& slice : slices) {
    if (slice.place) return 0;
    bytes += reduction.wire == WireFormat::kNone
                 ? slice.input.bytes()
                 : host::wire_bytes(reduction.wire, slice.input.numel);
  }
  return bytes;
}

SimCall reduction_of(std::span<const Slice> slices, const Reduction& reduction) {
  SimCall call{.signature = "all_reduce" + text_of(reduction)};
  for (const Slice& slice : slices) {
    call.signature += text_of(slice.input);
    if (!slice.place) continue;
    call.signature +=
        " at " + std::to_string(slice.place->arena) + ":" + std::to_string(slice.place->offset);
  }
  const std::vector<Slice> mine(slices.begin(), slices.end());
  call.pack = [mine, reduction] {
    SimParts parts;
    for (const Slice& slice : mine) parts.push_back(packed(slice, reduction));
    return parts;
  };
  call.finish = [mine, reduction](std::span<const SimParts> by_rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Bytes result = reduced(mine[i].input, reduction, by_rank, i);
      copy(result.data(), mine[i].output.data, result.size());
    }
  };
  return call;
}

SimCall scatter_of(std::span<const ScatterSlice> slices, const Reduction& reduction,
                   std::size_t rank) {
  std::vector<Slice> inputs;
  for (const ScatterSlice& slice : slices) inputs.push_back({slice.input, slice.output});
  SimCall call = reduction_of(inputs, reduction);
  for (const ScatterSlice& slice : slices) call.signature += text_of(slice.numel_of);
  call.finish = [mine = std::vector(slices.begin(), slices.end()), reduction,
                 rank](std::span<const SimParts> by_rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Bytes result = reduced(mine[i].input, reduction, by_rank, i);
      std::int64_t first = 0;
      for (std::size_t r = 0; r < rank; ++r) first += mine[i].numel_of[r];
      const TensorView& output = mine[i].output;
      copy(result.data() + static_cast<std::size_t>(first) * size_of(output.dtype), output.data,
           output.bytes());
    }
  };
  return call;
}

SimCall broadcast_of(std::span<const Slice> slices, std::size_t root, std::size_t rank) {
  SimCall call{.signature = "broadcast from " + std::to_string(root)};
  for (const Slice& slice : slices) call.signature += text_of(slice.input);
  const std::vector<Slice> mine(slices.begin(), slices.end());
  call.pack = [mine, sends = rank == root] {
    SimParts parts;
    for (const Slice& slice : mine) {
      parts.push_back(bytes_of(slice.input.data, sends ? slice.input.bytes() : 0));
    }
    return parts;
  };
  call.finish = [mine, root](std::span<const SimParts> by_rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      copy(by_rank[root][i].data(), mine[i].output.data, by_rank[root][i].size());
    }
  };
  return call;
}

SimCall gather_of(std::span<const GatherSlice> slices, std::size_t rank) {
  SimCall call{.signature = "all_gather"};
  for (const GatherSlice& slice : slices) call.signature += text_of(slice.bytes_of);
  const std::vector<GatherSlice> mine(slices.begin(), slices.end());
  call.pack = [mine, rank] {
    SimParts parts;
    for (const GatherSlice& slice : mine) {
      parts.push_back(bytes_of(slice.input, slice.bytes_of[rank]));
    }
    return parts;
  };
  call.finish = [mine](std::span<const SimParts> by_rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      auto* to = static_cast<std::byte*>(mine[i].output);
      for (const SimParts& parts : by_rank) put(parts[i], to);
    }
  };
  return call;
}

// A part for each rank and slice.
SimCall exchange_of(std::span<const ExchangeSlice> slices, std::size_t rank) {
  SimCall call{.signature = "all_to_all of " + std::to_string(slices.size())};
  const std::vector<ExchangeSlice> mine(slices.begin(), slices.end());
  call.pack = [mine] {
    SimParts parts;
    for (const ExchangeSlice& slice : mine) {
      const auto* from = static_cast<const std::byte*>(slice.input);
      for (const std::size_t bytes : slice.bytes_to) {
        parts.push_back(bytes_of(from, bytes));
        from += bytes;
      }
    }
    return parts;
  };
  call.finish = [mine, rank](std::span<const SimParts> by_rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      auto* to = static_cast<std::byte*>(mine[i].output);
      for (std::size_t r = 0; r < by_rank.size(); ++r) {
        const Bytes& part = by_rank[r][i * by_rank.size() + rank];
        if (part.size() != mine[i].bytes_from[r]) {
          throw InternalError("rank " + std::to_string(r) + " sends " +
                              std::to_string(part.size()) + " bytes to rank " +
                              std::to_string(rank) + ", which expects " +
                              std::to_string(mine[i].bytes_from[r]));
        }
        put(part, to);
      }
    }
  };
  return call;
}

template <typename Slices>
std::size_t bytes_moved(const Slices& slices, const auto& bytes_of_slice) {
  std::size_t bytes = 0;
  for (const auto& slice : slices) bytes += bytes_of_slice(slice);
  return bytes;
}

}  // namespace

SimOperation::SimOperation(std::shared_ptr<SimSet> set, SimDevice* device, std::size_t packed_bytes,
                           SimCall call)
    : set_(std::move(set)),
      call_(std::make_shared<SimCall>(std::move(call))),
      packed_bytes_(packed_bytes),
      enqueued_(device != nullptr) {
  if (!enqueued_) {
    number_ = set_->shared().meetings.arrive(Lane::kHost, *set_, call_);
    return;
  }
  device->enqueue([members = set_, shared = call_] {
    SimMeetings& meetings = members->shared().meetings;
    const std::uint64_t number = meetings.arrive(Lane::kDevice, *members, shared);
    meetings.wait_and_collect(Lane::kDevice, number, *members, *shared);
  });
}

SimOperation::SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> /*ready*/,
                           std::span<const Slice> slices, const Reduction& reduction)
    : SimOperation(set, set->device, bytes_packed(slices, reduction),
                   reduction_of(slices, reduction)) {}

SimOperation::SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> /*ready*/,
                           std::span<const ScatterSlice> slices, const Reduction& reduction)
    : SimOperation(set, set->device,
                   bytes_moved(slices, [](const auto& slice) { return slice.input.bytes(); }),
                   scatter_of(slices, reduction, set->rank())) {}

SimOperation::SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> /*ready*/,
                           std::span<const Slice> slices, Rank root)
    : SimOperation(set, set->device,
                   set->rank() == static_cast<std::size_t>(root) ? bytes_packed(slices, {}) : 0,
                   broadcast_of(slices, static_cast<std::size_t>(root), set->rank())) {}

SimOperation::SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> /*ready*/,
                           std::span<const GatherSlice> slices)
    : SimOperation(
          set, set->device,
          bytes_moved(slices, [&](const auto& slice) { return slice.bytes_of[set->rank()]; }),
          gather_of(slices, set->rank())) {}

SimOperation::SimOperation(std::shared_ptr<SimSet> set, std::vector<Fence> /*ready*/,
                           std::span<const ExchangeSlice> slices)
    : SimOperation(set, set->device,
                   bytes_moved(slices, [](const auto& slice) { return sum(slice.bytes_to); }),
                   exchange_of(slices, set->rank())) {}

bool SimOperation::advance() {
  if (enqueued_) {
    set_->throw_if_aborted();
    return true;
  }
  finished_ = finished_ || set_->shared().meetings.collect(Lane::kHost, number_, *set_, *call_);
  return finished_;
}

SimCollective::SimCollective(std::shared_ptr<SimSet> set) : SetCollective(std::move(set)) {
  if (!set_->shared().options.asynchronous) return;
  device_ = std::make_unique<SimDevice>();
  set_->device = device_.get();
}

SimCollective::~SimCollective() {
  if (device_ != nullptr) abort();  // a task may wait for ranks that will not come
}

// Nobody reaches another rank's part, but all say that it is there.
std::unique_ptr<Operation> SimCollective::make_arena(std::uint64_t number, std::size_t bytes,
                                                     ArenaMemory& made) {
  const Buffer buffer = host::allocate_buffer(bytes);
  const auto arena = std::make_shared<host::MappedArena>();
  arena->begin_of = {static_cast<std::byte*>(buffer.data)};
  arena->memory = {buffer.owner};
  arenas_.add(number, arena);
  SimCall call{.signature = "arena " + std::to_string(number) + " of " + std::to_string(bytes)};
  call.pack = [] { return SimParts(); };
  call.finish = [buffer, arena, &made](std::span<const SimParts>) {
    made = {{buffer.data, buffer.bytes, arena}, true};
  };
  return std::make_unique<SimOperation>(set_, nullptr, 0, std::move(call));
}

// Whatever device it plays: its memory is the host's.
void SimCollective::write(const void* from, void* to, std::size_t bytes) {
  copy(from, to, bytes);
}

void SimCollective::after(const Fence& ready) {
  if (device_ == nullptr) {
    ready.wait();
    return;
  }
  SetCollective::after(ready);
  device_->enqueue([set = set_, ready] {
    while (!ready.reached() && !set->is_aborted()) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (ready.reached()) ready.wait();  // throws if its device failed
  });
}

std::unique_ptr<Operation> SimCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  arenas_.find(slices, 0);
  return reduce_packed(slices, reduction);
}

// Integers of the host, which no device orders.
std::unique_ptr<Operation> SimCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), size_);
  const GatherSlice slice = {
      mine.data(), all.data(),
      std::vector<std::size_t>(static_cast<std::size_t>(size_), mine.size_bytes())};
  return std::make_unique<SimOperation>(set_, nullptr, mine.size_bytes(),
                                        gather_of({&slice, 1}, set_->rank()));
}

}  // namespace hvd::engine
