#include "core/runtime/finite_check.h"

#include <cstring>

#include "core/negotiate/messages/request.h"

namespace hvd {
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

std::string describe(const Submission& submission, std::size_t part, std::uint64_t number) {
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
    default:
      return true;
  }
}

std::string describe_not_finite(const Submission& submission, std::uint64_t number) {
  if (!spreads(submission.request) || submission.request.device != DeviceKind::kCpu) return "";
  for (std::size_t part = 0; part < submission.parts.size(); ++part) {
    if (!is_finite(submission.parts[part].input.view)) return describe(submission, part, number);
  }
  return "";
}

}  // namespace hvd
