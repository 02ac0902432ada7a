#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/allocators.h"
#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/tensor_view.h"
#include "core/negotiate/messages/request.h"
#include "core/ports/fence.h"
#include "core/runtime/process_set.h"

namespace hvd::engine {

// What messages call the tensors of a call that is made again and again, such as the gradients
// that an optimizer reduces together.
struct CallLabels {
  std::string kind = "gradient of";
  std::vector<std::string> names;                // of the tensors, in the call's order
  mutable std::atomic<std::uint64_t> calls = 0;  // made so far
};

// One tensor of a collective call.
struct Part {
  Lease input;
  // Allreduce, broadcast, reduce (root), reducescatter: written; may be the same memory as input.
  // The others' results are allocated by the engine.
  Lease output = {};
  Lease residual = {};                    // see Slice::residual; float32, as many elements as input
  std::int64_t rows = 0;                  // allgather, gather: this rank's first dimension
  std::vector<std::int64_t> splits = {};  // alltoall, scatter (root): rows for each rank of the set
  std::size_t number = 0;                 // in the call, which may be several submissions
};

using Parts = RecycledVector<Part>;

// One collective call of one rank: a tensor, or a group of them. Memory is kept alive by the leases
// until the handle is done; their owners are let go by the thread that waits for the handle (by the
// coordinator if the handle was dropped before, or if the submission failed, and by the completion
// thread if the handle told before what its results are behind: see Handle::wait_enqueued).
struct Submission {
  Request request;
  Parts parts;                                         // one for each of request.shapes
  Fence ready;                                         // inputs may be read past this point
  std::shared_ptr<const CallLabels> labels = nullptr;  // null = the request's name has to do
  std::uint64_t call = 0;                              // which call of these labels, from 1 on
};

// How long to wait until that is reported, and until it fails; zero = never.
struct WaitLimits {
  Duration warning = Duration::zero();
  Duration limit = Duration::zero();
};

// One tensor from this rank to another or back; bypasses the order of the collectives.
struct PointToPoint {
  enum class Direction { kSend, kReceive } direction = Direction::kSend;
  Rank peer = 0;
  int tag = 0;                                      // not negative
  Lease tensor;                                     // read or written
  std::optional<WaitLimits> limits = std::nullopt;  // for the other end; without: the stall limits
};

// Whether requests of this kind run as batches: the others only change what the log knows.
constexpr bool runs_batches(CollectiveKind kind) {
  return kind <= CollectiveKind::kBarrier || kind == CollectiveKind::kMakeArena;
}

// Rows of its first dimension that each rank of a set gets from a reducescatter: equal shares, the
// remainder one each to the first ranks.
std::vector<std::int64_t> scattered_rows(std::int64_t rows, int set_size);

// What travels with its announcement, if that is `most` bytes at most: see EagerValues.
Bytes eager_values(const Submission& submission, std::size_t most);

// Throws InvalidArgumentError naming the tensor and the offending values when the submission does
// not fit its request or the rank's place in the process set.
void check(const Submission& submission, const SetMembers& set, Rank rank);
// ... or the transfer a world of `world_size` ranks.
void check(const PointToPoint& transfer, int world_size);

// Whether no element is infinite or a NaN. Host memory of a floating dtype; others are finite.
bool is_finite(const TensorView& view);

// What HVD_CHECK_NAN says about this rank's part of a reduction, for Request::not_finite; `number`
// counts this rank's submissions. Empty when all is finite or the call does not sum or multiply.
// Reads the inputs: past the submission's `ready`. Memory of devices is not looked at.
std::string describe_not_finite(const Submission& submission, std::uint64_t number);

}  // namespace hvd::engine
