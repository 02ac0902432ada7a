#include "core/runtime/submission.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "core/base/reduction.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/messages/request.h"
#include "core/negotiate/process_sets.h"

namespace hvd::engine {
namespace {

using Kind = CollectiveKind;

bool has_tensors(Kind kind) {
  return kind < Kind::kBarrier;
}

[[noreturn]] void refuse(const Request& request, const std::string& why) {
  throw InvalidArgumentError(readable_name(request.name) + ": " + why);
}

void check_view(const Request& request, const char* which, const TensorView& view,
                std::int64_t numel) {
  if (view.dtype != request.dtype) {
    refuse(request, str_cat("the request says ", name_of(request.dtype), ", its ", which, " is ",
                            name_of(view.dtype)));
  }
  if (view.numel != numel) {
    refuse(request, str_cat("the request has ", numel, " elements, its ", which, " ", view.numel));
  }
  if (view.device.kind != request.device) {
    refuse(request, str_cat("its ", which, " is on another kind of device than the request says"));
  }
  if (view.data == nullptr && numel != 0) refuse(request, str_cat("its ", which, " has no memory"));
}

void check_overlap(const Request& request, const Part& part) {
  const TensorView& in = part.input.view;
  const TensorView& out = part.output.view;
  if (in.data == out.data || in.numel == 0) return;
  const auto* in_first = static_cast<const std::byte*>(in.data);
  const auto* out_first = static_cast<const std::byte*>(out.data);
  const std::less<const std::byte*> before;
  if (before(in_first, out_first + out.bytes()) && before(out_first, in_first + in.bytes())) {
    refuse(request, "input and output overlap without being the same memory");
  }
}

// Elements of `rows` rows; the request's shape is that of one row.
std::int64_t numel_of_rows(const Request& request, const Shape& row, std::int64_t rows) {
  if (rows < 0) refuse(request, "its first dimension is " + std::to_string(rows));
  Shape shape = row;
  shape.insert(shape.begin(), rows);
  return numel_of(shape);
}

std::int64_t sum_of_splits(const Request& request, const Part& part, int set_size) {
  if (part.splits.size() != static_cast<std::size_t>(set_size)) {
    refuse(request, "it has " + std::to_string(part.splits.size()) +
                        " splits for a process set of " + std::to_string(set_size) + " ranks");
  }
  std::int64_t sum = 0;
  for (const std::int64_t rows : part.splits) {
    if (rows < 0 || rows > std::numeric_limits<std::int64_t>::max() - sum) {
      refuse(request, "a split is " + std::to_string(rows));
    }
    sum += rows;
  }
  return sum;
}

void check_residual(const Request& request, const Part& part) {
  const TensorView& residual = part.residual.view;
  if (residual.data == nullptr) return;
  if (request.wire == WireFormat::kNone) {
    refuse(request, "it has a residual but no wire format that loses anything");
  }
  if (residual.dtype != DType::kF32 || residual.numel != part.input.view.numel ||
      residual.device.kind != request.device) {
    refuse(request, "its residual must be float32 of " + std::to_string(part.input.view.numel) +
                        " elements on the same device, not " +
                        std::string(name_of(residual.dtype)) + " of " +
                        std::to_string(residual.numel));
  }
}

void check_scattered(const Request& request, const Part& part, const Shape& shape,
                     const SetMembers& set, Rank rank) {
  if (shape.empty()) refuse(request, "a scalar has no first dimension to scatter");
  check_view(request, "input", part.input.view, numel_of(shape));
  const auto rows = scattered_rows(shape.front(), set.size());
  const Shape row(shape.begin() + 1, shape.end());
  const auto position = static_cast<std::size_t>(set.position_of(rank));
  check_view(request, "output", part.output.view, numel_of_rows(request, row, rows[position]));
}

void check_part(const Request& request, const Part& part, const Shape& shape, const SetMembers& set,
                Rank rank) {
  const bool root = request.root == rank;
  switch (request.kind) {
    case Kind::kAllgather:
    case Kind::kGather:
      check_view(request, "input", part.input.view, numel_of_rows(request, shape, part.rows));
      return;
    case Kind::kScatter:
      if (!root) {
        if (part.splits.empty() && part.input.view.numel == 0) return;
        refuse(request, "only the root, rank " + std::to_string(request.root) + ", gives data");
      }
      [[fallthrough]];
    case Kind::kAlltoall:
      check_view(request, "input", part.input.view,
                 numel_of_rows(request, shape, sum_of_splits(request, part, set.size())));
      return;
    case Kind::kReducescatter:
      check_scattered(request, part, shape, set, rank);
      return;
    default:  // allreduce, broadcast, reduce
      check_view(request, "input", part.input.view, numel_of(shape));
      if (request.kind == Kind::kReduce && !root) return;
      check_view(request, "output", part.output.view, numel_of(shape));
      check_overlap(request, part);
      check_residual(request, part);
  }
}

// What a joined rank brings must stay neutral under the scale.
void check_scales(const Request& request) {
  const ReduceOp op = request.op;
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    refuse(request, "its scales " + std::to_string(request.prescale) + " and " +
                        std::to_string(request.postscale) + " must be finite");
  }
  const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool unscaled = op == ReduceOp::kProduct || op == ReduceOp::kBitAnd;
  if ((unscaled && request.prescale != 1.0) || (ordered && request.prescale <= 0)) {
    refuse(request, "reduction " + std::string(name_of(op)) + " cannot be prescaled by " +
                        std::to_string(request.prescale) + "; use the postscale");
  }
}

void check_reduction(const Request& request) {
  if (request.op == ReduceOp::kAdasum && request.kind != Kind::kAllreduce) {
    // Of whatever dtype: Horovod's is a NotImplementedError.
    throw UnsupportedError(readable_name(request.name) + ": only an allreduce takes Adasum");
  }
  try {
    hvd::check_reduction(request.dtype,
                         {request.op, request.prescale, request.postscale, request.wire});
  } catch (const InvalidArgumentError& error) {
    refuse(request, error.what());
  }
  check_scales(request);
  if (request.kind != Kind::kAllreduce && request.wire != WireFormat::kNone) {
    refuse(request, "only an allreduce takes wire format " + std::string(name_of(request.wire)));
  }
}

void check_arena(const Submission& submission) {
  const Request& request = submission.request;
  if (request.dtype != DType::kU8 || request.shapes.size() != 1 ||
      request.shapes.front().size() != 1 || !submission.parts.empty()) {
    refuse(request, "an arena is one number of bytes and no tensor");
  }
  if (request.shapes.front().front() < 1) {
    refuse(request, "an arena of " + std::to_string(request.shapes.front().front()) + " bytes");
  }
}

}  // namespace

std::vector<std::int64_t> scattered_rows(std::int64_t rows, int set_size) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(set_size), rows / set_size);
  const auto more = static_cast<std::size_t>(rows % set_size);
  for (std::size_t rank = 0; rank < more; ++rank) ++shares[rank];
  return shares;
}

void check(const Submission& submission, const SetMembers& set, Rank rank) {
  const Request& request = submission.request;
  if (request.name.empty()) throw InvalidArgumentError("a tensor was submitted without a name");
  if (!set.has(rank)) {
    refuse(request, "this rank, " + std::to_string(rank) + ", is not in process set " +
                        std::to_string(set.id));
  }
  if (request.kind == Kind::kMakeArena) return check_arena(submission);
  const std::size_t tensors = request.shapes.size();
  if (submission.parts.size() != tensors || (tensors != 0) != has_tensors(request.kind)) {
    refuse(request, "it has " + std::to_string(submission.parts.size()) + " tensors and " +
                        std::to_string(tensors) + " shapes");
  }
  if (needs_root(request.kind) && !set.has(request.root)) {
    refuse(request, "root rank " + std::to_string(request.root) + " is not in process set " +
                        std::to_string(set.id) + ", which has " + describe_ranks(set.ranks));
  }
  const std::string fault = fault_of_set_change(request, set.size());
  if (!fault.empty()) refuse(request, fault);
  if (reduces(request.kind)) check_reduction(request);
  for (std::size_t i = 0; i < tensors; ++i) {
    check_part(request, submission.parts[i], request.shapes[i], set, rank);
  }
}

void check(const PointToPoint& transfer, int world_size) {
  const bool send = transfer.direction == PointToPoint::Direction::kSend;
  const std::string what = send ? "send: " : "receive: ";
  if (transfer.peer < 0 || transfer.peer >= world_size) {
    throw InvalidArgumentError(what + "rank " + std::to_string(transfer.peer) +
                               " is not in a world of " + std::to_string(world_size));
  }
  if (transfer.tag < 0) {
    throw InvalidArgumentError(what + "tag " + std::to_string(transfer.tag) + " is negative");
  }
  const TensorView& view = transfer.tensor.view;
  if (view.numel < 0 || (view.data == nullptr && view.numel != 0)) {
    throw InvalidArgumentError(what + "a tensor of " + std::to_string(view.numel) +
                               " elements has no memory");
  }
}

namespace {

// All bits of the exponent are set in infinities and NaNs, and in nothing else.
template <typename Bits>
bool all_finite(const void* data, std::int64_t numel, Bits exponent) {
  const auto* bytes = static_cast<const std::byte*>(data);
  Bits found = 0;
  for (std::int64_t i = 0; i < numel; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<std::size_t>(i) * sizeof(Bits), sizeof(Bits));
    found = static_cast<Bits>(found | static_cast<Bits>((bits & exponent) == exponent));
  }
  return found == 0;
}

bool spreads(const Request& request) {
  const ReduceOp op = request.op;
  return reduces(request.kind) && (op == ReduceOp::kSum || op == ReduceOp::kAverage ||
                                   op == ReduceOp::kAdasum || op == ReduceOp::kProduct);
}

std::string describe_tensor(const Submission& submission, std::size_t part, std::uint64_t number) {
  const auto* labels = submission.labels.get();
  const std::size_t place = submission.parts[part].number;
  if (labels != nullptr && place < labels->names.size()) {
    return labels->kind + " " + quoted_name(labels->names[place]) + " is not finite (step " +
           std::to_string(submission.call) + ")";
  }
  std::string text;
  if (submission.parts.size() > 1) {
    text = "tensor " + std::to_string(part + 1) + " of " + std::to_string(submission.parts.size()) +
           " in ";
  }
  return text + readable_name(submission.request.name) + " is not finite (submission " +
         std::to_string(number) + ")";
}

}  // namespace

Bytes eager_values(const Submission& submission, std::size_t most) {
  Bytes values;
  const std::size_t bytes = eager_bytes(submission.request);
  if (bytes == 0 || bytes > most) return values;
  values.reserve(bytes);
  for (const Part& part : submission.parts) {
    const auto* const data = static_cast<const std::byte*>(part.input.view.data);
    values.insert(values.end(), data, data + part.input.view.bytes());
  }
  return values;
}

bool is_finite(const TensorView& view) {
  switch (view.dtype) {
    case DType::kF16:
      return all_finite<std::uint16_t>(view.data, view.numel, 0x7c00u);
    case DType::kBF16:
      return all_finite<std::uint16_t>(view.data, view.numel, 0x7f80u);
    case DType::kF32:
      return all_finite<std::uint32_t>(view.data, view.numel, 0x7f800000u);
    case DType::kF64:
      return all_finite<std::uint64_t>(view.data, view.numel, 0x7ff0000000000000u);
    case DType::kC64:
      return all_finite<std::uint32_t>(view.data, 2 * view.numel, 0x7f800000u);
    case DType::kC128:
      return all_finite<std::uint64_t>(view.data, 2 * view.numel, 0x7ff0000000000000u);
    default:
      return true;
  }
}

std::string describe_not_finite(const Submission& submission, std::uint64_t number) {
  if (!spreads(submission.request) || submission.request.device != DeviceKind::kCpu) return "";
  for (std::size_t part = 0; part < submission.parts.size(); ++part) {
    if (!is_finite(submission.parts[part].input.view))
      return describe_tensor(submission, part, number);
  }
  return "";
}

}  // namespace hvd::engine
