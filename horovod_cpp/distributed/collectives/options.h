#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/reduction.h"
#include "horovod_cpp/distributed/collectives/compression.h"
#include "horovod_cpp/distributed/collectives/process_set.h"

// Options of the collectives, for designated initialisers:
//
//   hvd::allreduce(loss, {.op = hvd::ReduceOp::kSum, .name = "loss", .process_set = evens});
//
// `name` pairs calls across ranks; see collectives.h.
namespace hvd {

struct AllreduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  std::string name = {};
  // The result is postscale * reduction(prescale * tensor). A scale of an integer is applied in
  // float64, then truncated and saturated.
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  Compression compression = {};
  ProcessSet process_set = {};
};

// reduce, reducescatter
struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  std::string name = {};
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  ProcessSet process_set = {};
};

// allgather, broadcast, gather
struct CollectiveOptions {
  std::string name = {};
  ProcessSet process_set = {};
};

// alltoall, scatter
struct SplitOptions {
  // Rows for each rank of the set, in its order; empty = equal parts.
  std::vector<std::int64_t> splits = {};
  std::string name = {};
  ProcessSet process_set = {};
};

using BarrierOptions = CollectiveOptions;

// What an average divides by while a rank has joined.
enum class JoinAverage : std::uint8_t {
  kContributed,  // the ranks that contributed
  kSize,         // all ranks of the set, as Horovod does
};

struct JoinOptions {
  JoinAverage average = JoinAverage::kContributed;
  ProcessSet process_set = {};
};

struct PointToPointOptions {
  int tag = 0;  // not negative; tells the transfers of two ranks apart
  ProcessSet process_set = {};
};

}  // namespace hvd
