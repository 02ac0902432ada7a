#include "test/support/sim/sim_call.h"

#include <cstring>
#include <numeric>

#include "core/base/status.h"
#include "ops/host/adasum.h"
#include "ops/host/reduce.h"
#include "ops/host/wire.h"

namespace hvd {
namespace {

using Result = std::vector<std::byte>;

void append(Result& result, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  result.insert(result.end(), first, first + bytes);
}

template <typename T>
T sum_before(const std::vector<T>& counts, Rank rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, T{0});
}

std::pair<std::uint64_t, std::uint64_t> place_of(const Slice& slice) {
  if (!slice.place) return {};
  return {slice.place->arena, slice.place->offset};
}

// Why two ranks' calls do not belong together; empty when they do.
std::string difference(const SimCall& a, const SimCall& b) {
  if (a.kind != b.kind) return "kinds";
  if (a.reduction.op != b.reduction.op || a.reduction.wire != b.reduction.wire ||
      a.reduction.prescale != b.reduction.prescale ||
      a.reduction.postscale != b.reduction.postscale) {
    return "reductions";
  }
  if (a.root != b.root) return "roots";
  if (a.slices.size() != b.slices.size() || a.gathers.size() != b.gathers.size() ||
      a.exchanges.size() != b.exchanges.size()) {
    return "numbers of slices";
  }
  for (std::size_t i = 0; i < a.slices.size(); ++i) {
    if (a.slices[i].input.dtype != b.slices[i].input.dtype) return "dtypes";
    if (a.slices[i].input.numel != b.slices[i].input.numel) return "numbers of elements";
    if (place_of(a.slices[i]) != place_of(b.slices[i])) return "places";
  }
  if (a.numel_of != b.numel_of) return "parts";
  for (std::size_t i = 0; i < a.gathers.size(); ++i) {
    if (a.gathers[i].bytes_of != b.gathers[i].bytes_of) return "sizes by rank";
  }
  for (std::size_t i = 0; i < a.exchanges.size(); ++i) {
    const auto from = static_cast<std::size_t>(a.member->rank);
    const auto to = static_cast<std::size_t>(b.member->rank);
    if (a.exchanges[i].bytes_to[to] != b.exchanges[i].bytes_from[from]) return "sizes of parts";
    if (b.exchanges[i].bytes_to[from] != a.exchanges[i].bytes_from[to]) return "sizes of parts";
  }
  if (a.mine.size() != b.mine.size()) return "numbers of integers";
  return {};
}

Result reduced(const SimCalls& calls, std::size_t slice) {
  std::vector<const void*> inputs;
  const host::MappedArenaPtr& arena = calls.front()->arena;
  for (const SimCallPtr& call : calls) {
    if (arena != nullptr) {
      inputs.push_back(arena->at(inputs.size(), call->slices[slice]));
      continue;
    }
    inputs.push_back(call->decoded.empty() ? call->slices[slice].input.data
                                           : call->decoded[slice].data());
  }
  const SimCall& any = *calls.front();
  const Reduction& reduction = any.reduction;
  const TensorView& view = any.slices[slice].input;
  const double prescale = any.decoded.empty() ? reduction.prescale : 1.0;  // or done by encode()
  Result result(view.bytes());
  if (reduction.op == ReduceOp::kAdasum) {
    host::adasum(view.dtype, inputs, result.data(), view.numel, prescale, reduction.postscale);
  } else {
    host::reduce(view.dtype, reduction.op, inputs, result.data(), view.numel, prescale,
                 reduction.postscale);
  }
  return result;
}

Result broadcast(const SimCalls& calls, std::size_t slice) {
  const SimCall& root = *calls[static_cast<std::size_t>(calls.front()->root)];
  Result result;
  append(result, root.slices[slice].input.data, root.slices[slice].input.bytes());
  return result;
}

Result gathered(const SimCalls& calls, std::size_t slice) {
  Result result;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const GatherSlice& gather = calls[rank]->gathers[slice];
    append(result, gather.input, gather.bytes_of[rank]);
  }
  return result;
}

// What rank 0 gets, what rank 1 gets and so on.
Result exchanged(const SimCalls& calls, std::size_t slice) {
  Result result;
  for (std::size_t to = 0; to < calls.size(); ++to) {
    for (const SimCallPtr& call : calls) {
      const ExchangeSlice& exchange = call->exchanges[slice];
      const auto* input = static_cast<const std::byte*>(exchange.input);
      const std::size_t begin = sum_before(exchange.bytes_to, static_cast<Rank>(to));
      if (exchange.bytes_to[to] != 0) append(result, input + begin, exchange.bytes_to[to]);
    }
  }
  return result;
}

Result exchanged_integers(const SimCalls& calls) {
  Result result;
  for (const SimCallPtr& call : calls) append(result, call->mine.data(), call->mine.size_bytes());
  return result;
}

void copy_out(const Result& result, std::size_t begin, std::size_t bytes, void* output) {
  if (bytes != 0) std::memcpy(output, result.data() + begin, bytes);
}

void copy_parcels(const SimCalls& calls, const Result& result, std::size_t slice, SimCall& call) {
  const ExchangeSlice& mine = call.exchanges[slice];
  std::size_t begin = 0;
  for (Rank before = 0; before < call.member->rank; ++before) {
    const auto& sizes = calls[static_cast<std::size_t>(before)]->exchanges[slice].bytes_from;
    begin += sum_before(sizes, call.member->size);
  }
  copy_out(result, begin, sum_before(mine.bytes_from, call.member->size), mine.output);
}

}  // namespace

void SimMember::check_running() const {
  if (!is_aborted()) return;
  throw AbortedError("the collectives of rank " + std::to_string(world_rank) + " were aborted");
}

void encode(SimCall& call) {
  const Reduction& reduction = call.reduction;
  if (reduction.wire == WireFormat::kNone) return;
  for (const Slice& slice : call.slices) {
    const auto& [data, numel, dtype, device] = slice.input;
    std::vector<std::byte> encoded(host::wire_bytes(reduction.wire, numel));
    host::encode(reduction.wire, dtype, data, reduction.prescale, slice.residual, numel,
                 encoded.data());
    Result& decoded = call.decoded.emplace_back(slice.input.bytes());
    host::decode(reduction.wire, encoded.data(), dtype, decoded.data(), numel);
  }
}

std::string disagreement(const SimCalls& calls) {
  for (std::size_t a = 0; a < calls.size(); ++a) {
    for (std::size_t b = a + 1; b < calls.size(); ++b) {
      const std::string what = difference(*calls[a], *calls[b]);
      if (what.empty()) continue;
      return "ranks " + std::to_string(a) + " and " + std::to_string(b) +
             " started operations that do not belong together: different " + what;
    }
  }
  return {};
}

SimResults results_of(const SimCalls& calls) {
  const SimCall& any = *calls.front();
  SimResults results;
  if (any.kind == SimKind::kExchange) results.push_back(exchanged_integers(calls));
  for (std::size_t i = 0; i < any.gathers.size(); ++i) results.push_back(gathered(calls, i));
  for (std::size_t i = 0; i < any.exchanges.size(); ++i) results.push_back(exchanged(calls, i));
  for (std::size_t i = 0; i < any.slices.size(); ++i) {
    results.push_back(any.kind == SimKind::kBroadcast ? broadcast(calls, i) : reduced(calls, i));
  }
  return results;
}

void write_in_place(const SimCalls& calls, const SimResults& results) {
  const SimCall& any = *calls.front();
  if (any.arena == nullptr) return;
  for (std::size_t i = 0; i < any.slices.size(); ++i) {
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      copy_out(results[i], 0, results[i].size(), any.arena->at(rank, any.slices[i]));
    }
  }
}

void write_results(const SimCalls& calls, const SimResults& results, SimCall& call) {
  if (call.kind == SimKind::kExchange) {
    copy_out(results[0], 0, results[0].size(), call.all.data());
  }
  for (std::size_t i = 0; i < call.gathers.size(); ++i) {
    copy_out(results[i], 0, results[i].size(), call.gathers[i].output);
  }
  for (std::size_t i = 0; i < call.exchanges.size(); ++i) copy_parcels(calls, results[i], i, call);
  if (call.arena != nullptr) return;
  for (std::size_t i = 0; i < call.slices.size(); ++i) {
    const TensorView& output = call.slices[i].output;
    const std::int64_t first =
        call.kind == SimKind::kScatter ? sum_before(call.numel_of[i], call.member->rank) : 0;
    copy_out(results[i], static_cast<std::size_t>(first) * size_of(output.dtype), output.bytes(),
             output.data);
  }
}

std::size_t packed_bytes(const SimCall& call) {
  const auto me = static_cast<std::size_t>(call.member->rank);
  std::size_t bytes = call.mine.size_bytes();
  for (const GatherSlice& slice : call.gathers) bytes += slice.bytes_of[me];
  for (const ExchangeSlice& slice : call.exchanges) {
    bytes += sum_before(slice.bytes_to, call.member->size);
  }
  if (call.arena != nullptr) return 0;
  if (call.kind == SimKind::kBroadcast && call.root != call.member->rank) return 0;
  for (const Slice& slice : call.slices) {
    bytes += call.reduction.wire == WireFormat::kNone
                 ? slice.input.bytes()
                 : host::wire_bytes(call.reduction.wire, slice.input.numel);
  }
  return bytes;
}

}  // namespace hvd
