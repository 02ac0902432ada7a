// What calls do once those of all ranks have met.

#include <algorithm>
#include <cstring>
#include <optional>

#include "ops/host/reduce.h"
#include "test/gpu/logic/nccl_world_state.h"

namespace hvd::test {
namespace {

std::size_t bytes_of(const Call& call) {
  return call.count * size_of(dtype_of(call.type));
}

// From the begin of the registered memory in which this lies.
std::optional<std::ptrdiff_t> distance_in(const Communicator& communicator, const void* data,
                                          std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(data);
  auto after = communicator.registered.upper_bound(at);
  if (after == communicator.registered.begin()) return std::nullopt;
  --after;
  if (at + bytes > after->first + after->second) return std::nullopt;
  return at - after->first;
}

}  // namespace

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kI8;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    case ncclFloat16:
      return DType::kF16;
    case ncclBfloat16:
      return DType::kBF16;
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    default:
      return DType::kU8;
  }
}

bool NcclWorld::State::attempt(const CallPtr& call) {
  if (call->done || call->communicator->aborted) return true;
  if (call->name == "ncclSend" || call->name == "ncclRecv") return attempt_transfer(call);
  Group& group = *call->communicator->group;
  if (!std::exchange(call->arrived, true)) {
    auto& meeting = group.meetings[call->number];
    meeting.push_back(call);
    if (static_cast<int>(meeting.size()) == group.size) {
      compute(std::move(meeting));
      group.meetings.erase(call->number);
    }
  }
  return call->done;
}

bool NcclWorld::State::attempt_transfer(const CallPtr& call) {
  if (std::exchange(call->arrived, true)) return call->done;
  Group& group = *call->communicator->group;
  const int rank = call->communicator->rank;
  const bool sends = call->name == "ncclSend";
  const auto pair = sends ? std::pair(rank, call->peer) : std::pair(call->peer, rank);
  (sends ? group.sends : group.receives)[pair].push_back(call);
  match(group, pair);
  return call->done;
}

void NcclWorld::State::match(Group& group, const std::pair<int, int>& pair) {
  auto& sends = group.sends[pair];
  auto& receives = group.receives[pair];
  while (!sends.empty() && !receives.empty()) {
    Call& from = *sends.front();
    Call& to = *receives.front();
    if (bytes_of(from) != bytes_of(to)) problems.emplace_back("a send and a receive differ");
    std::memcpy(to.to, from.from, std::min(bytes_of(from), bytes_of(to)));
    from.done = to.done = true;
    sends.pop_front();
    receives.pop_front();
  }
}

void NcclWorld::State::compute(std::vector<CallPtr> calls) {
  std::vector<CallPtr> by_rank(calls.size());
  for (const CallPtr& call : calls) {
    by_rank[static_cast<std::size_t>(call->communicator->rank)] = call;
    call->done = true;
  }
  check_alike(by_rank);
  check_registration(by_rank);
  const std::string& name = by_rank.front()->name;
  const bool reduces = name.find("Reduce") != std::string::npos;
  reduces ? reduce(by_rank) : move(by_rank);
}

void NcclWorld::State::check_alike(const std::vector<CallPtr>& by_rank) {
  const Call& first = *by_rank.front();
  for (const CallPtr& each : by_rank) {
    if (each->name == first.name && each->count == first.count && each->type == first.type &&
        each->op == first.op && each->peer == first.peer) {
      continue;
    }
    problems.push_back(first.name + " of " + std::to_string(first.count) + " meets " + each->name +
                       " of " + std::to_string(each->count));
  }
}

// Inputs and outputs; a broadcast has an input on its root alone.
void NcclWorld::State::check_registration(const std::vector<CallPtr>& by_rank) {
  const auto distances = [](const Call& call) {
    const std::size_t bytes = bytes_of(call);
    return std::pair(distance_in(*call.communicator, call.from, bytes),
                     distance_in(*call.communicator, call.to, bytes));
  };
  if (by_rank.front()->name == "ncclBroadcast") return;
  for (const CallPtr& each : by_rank) {
    if (distances(*each) == distances(*by_rank.front())) continue;
    problems.push_back(each->name + ": memory is not registered alike on all ranks");
  }
}

void NcclWorld::State::reduce(const std::vector<CallPtr>& by_rank) {
  const Call& first = *by_rank.front();
  const std::size_t ranks = by_rank.size();
  const bool scatters = first.name == "ncclReduceScatter";
  const std::size_t count = scatters ? first.count * ranks : first.count;
  const DType dtype = dtype_of(first.type);
  std::vector<const void*> inputs;
  for (const CallPtr& each : by_rank) inputs.push_back(each->from);
  ReduceOp op = ReduceOp::kSum;
  double before = 1.0;
  double after = 1.0;
  if (first.op == ncclProd) op = ReduceOp::kProduct;
  if (first.op == ncclMax) op = ReduceOp::kMax;
  if (first.op == ncclMin) op = ReduceOp::kMin;
  if (first.op == ncclAvg) after = 1.0 / static_cast<double>(ranks);
  if (first.op >= ncclNumOps) {
    before = first.communicator->scales[static_cast<std::size_t>(first.op - ncclNumOps)];
  }
  std::vector<std::byte> result(count * size_of(dtype));
  host::reduce(dtype, op, inputs, result.data(), static_cast<std::int64_t>(count), before, after);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Call& call = *by_rank[rank];
    if (call.name == "ncclReduce" && call.peer != static_cast<int>(rank)) continue;
    const std::size_t bytes = bytes_of(call);
    if (bytes != 0) std::memcpy(call.to, result.data() + (scatters ? rank * bytes : 0), bytes);
  }
}

void NcclWorld::State::move(const std::vector<CallPtr>& by_rank) {
  const std::size_t bytes = bytes_of(*by_rank.front());
  if (bytes == 0) return;
  std::vector<std::byte> result;
  const auto take = [&](const Call& from) {
    const auto* const first = static_cast<const std::byte*>(from.from);
    result.insert(result.end(), first, first + bytes);
  };
  if (by_rank.front()->name == "ncclBroadcast") {
    take(*by_rank[static_cast<std::size_t>(by_rank.front()->peer)]);
  } else {
    for (const CallPtr& each : by_rank) take(*each);
  }
  for (const CallPtr& each : by_rank) std::memcpy(each->to, result.data(), result.size());
}

}  // namespace hvd::test
