#include "ops/nccl/calls.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace hvd::engine {
namespace {

template <typename T>
bool all_equal(const std::vector<T>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

void check(const NcclTarget& target, ncclResult_t code, const char* call) {
  check_nccl(target.api, code, call, target.communicator);
}

}  // namespace

void all_reduce_elements(const NcclTarget& target, const NcclReduction& as, const void* from,
                         void* to, std::size_t count) {
  NcclReduction scaled = as;
  const NcclScaledSum op(target.api, scaled, target.communicator);
  check(target,
        target.api.all_reduce(from, to, count * scaled.factor, scaled.type, scaled.op,
                              target.communicator, target.stream),
        "ncclAllReduce");
}

void scatter_slice(const NcclTarget& target, const NcclReduction& as, const ScatterSlice& slice) {
  NcclReduction scaled = as;
  const NcclScaledSum op(target.api, scaled, target.communicator);
  const std::vector<std::int64_t>& numel_of = slice.numel_of;
  const auto count = [&](std::int64_t numel) {
    return static_cast<std::size_t>(numel) * scaled.factor;
  };
  if (all_equal(numel_of)) {
    check(target,
          target.api.reduce_scatter(slice.input.data, slice.output.data, count(numel_of[0]),
                                    scaled.type, scaled.op, target.communicator, target.stream),
          "ncclReduceScatter");
    return;
  }
  const auto* from = static_cast<const std::byte*>(slice.input.data);
  for (std::size_t root = 0; root < numel_of.size(); ++root) {
    check(target,
          target.api.reduce(from, slice.output.data, count(numel_of[root]), scaled.type, scaled.op,
                            static_cast<int>(root), target.communicator, target.stream),
          "ncclReduce");
    from += static_cast<std::size_t>(numel_of[root]) * size_of(slice.input.dtype);
  }
}

void broadcast_bytes(const NcclTarget& target, const void* from, void* to, std::size_t bytes,
                     Rank root) {
  check(target,
        target.api.broadcast(from, to, bytes, ncclUint8, root, target.communicator, target.stream),
        "ncclBroadcast");
}

void gather_bytes(const NcclTarget& target, const void* from, void* to, std::size_t bytes) {
  check(target,
        target.api.all_gather(from, to, bytes, ncclUint8, target.communicator, target.stream),
        "ncclAllGather");
}

void gather_slice(const NcclTarget& target, const GatherSlice& slice, Rank rank) {
  const std::vector<std::size_t>& bytes_of = slice.bytes_of;
  if (all_equal(bytes_of)) return gather_bytes(target, slice.input, slice.output, bytes_of[0]);
  auto* to = static_cast<std::byte*>(slice.output);
  for (std::size_t i = 0; i < bytes_of.size(); ++i) {
    const auto root = static_cast<Rank>(i);
    broadcast_bytes(target, root == rank ? slice.input : to, to, bytes_of[i], root);
    to += bytes_of[i];
  }
}

void exchange_slice(const NcclTarget& target, const ExchangeSlice& slice) {
  const auto* from = static_cast<const std::byte*>(slice.input);
  auto* to = static_cast<std::byte*>(slice.output);
  for (std::size_t i = 0; i < slice.bytes_to.size(); ++i) {
    const auto peer = static_cast<int>(i);
    if (slice.bytes_to[i] != 0) {
      check(target,
            target.api.send(from, slice.bytes_to[i], ncclUint8, peer, target.communicator,
                            target.stream),
            "ncclSend");
    }
    if (slice.bytes_from[i] != 0) {
      check(target,
            target.api.recv(to, slice.bytes_from[i], ncclUint8, peer, target.communicator,
                            target.stream),
            "ncclRecv");
    }
    from += slice.bytes_to[i];
    to += slice.bytes_from[i];
  }
}

}  // namespace hvd::engine
