#pragma once

#include <cstdint>
#include <string>

#include "core/base/bytes.h"
#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/reduce_op.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"

namespace hvd {

enum class CollectiveKind : std::uint8_t { kAllreduce = 0, kBroadcast = 1, kAllgather = 2 };

inline constexpr int kCollectiveKindCount = 3;

// "allreduce", "broadcast", "allgather".
const char* name_of(CollectiveKind kind);

// What must be equal on all ranks for a name to run: compared, merged and cached. What may differ
// by rank (allgather's first dimension) is exchanged in the data plane when the step runs.
struct Request {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  ReduceOp op = ReduceOp::kSum;  // allreduce only
  Rank root = 0;                 // broadcast only
  Shape shape;                   // allgather: without the first dimension
  bool automatic_name = false;   // gets a slot for one run only

  std::int64_t numel() const { return numel_of(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype); }

  friend bool operator==(const Request&, const Request&) = default;
};

void write(ByteWriter& out, const Request& request);
Request read_request(ByteReader& in);

// Says in which field two requests of one name differ, e.g.
// "dtype: float32 on rank 0, float64 on rank 2". Empty when they are equal.
std::string describe_difference(const Request& a, Rank rank_a, const Request& b, Rank rank_b);

}  // namespace hvd
