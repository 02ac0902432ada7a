#include "core/runtime/submission.h"

#include <cstddef>
#include <functional>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

[[noreturn]] void refuse(const Request& request, const std::string& why) {
  throw InvalidArgumentError("tensor '" + request.name + "': " + why);
}

void check_view(const Request& request, const char* which, const TensorView& view,
                std::int64_t numel) {
  const std::string name = which;
  if (view.dtype != request.dtype) {
    refuse(request, "the request says " + std::string(name_of(request.dtype)) + ", its " + name +
                        " is " + std::string(name_of(view.dtype)));
  }
  if (view.numel != numel) {
    refuse(request, "the request has " + std::to_string(numel) + " elements, its " + name + " " +
                        std::to_string(view.numel));
  }
  if (view.device.kind != request.device) {
    refuse(request, "its " + name + " is on another kind of device than the request says");
  }
  if (view.data == nullptr && numel != 0) refuse(request, "its " + name + " has no memory");
}

void check_overlap(const Submission& submission) {
  const TensorView& in = submission.input.view;
  const TensorView& out = submission.output.view;
  if (in.data == out.data || in.numel == 0) return;
  const auto* in_first = static_cast<const std::byte*>(in.data);
  const auto* out_first = static_cast<const std::byte*>(out.data);
  const std::less<const std::byte*> before;
  if (before(in_first, out_first + out.bytes()) && before(out_first, in_first + in.bytes())) {
    refuse(submission.request, "input and output overlap without being the same memory");
  }
}

std::int64_t gathered_numel(const Submission& submission) {
  if (submission.rows < 0) {
    refuse(submission.request, "its first dimension is " + std::to_string(submission.rows));
  }
  Shape shape = submission.request.shape;
  shape.insert(shape.begin(), submission.rows);
  return numel_of(shape);
}

}  // namespace

void check(const Submission& submission, int size) {
  const Request& request = submission.request;
  if (request.name.empty()) throw InvalidArgumentError("a tensor was submitted without a name");
  if (request.kind == CollectiveKind::kAllgather) {
    check_view(request, "input", submission.input.view, gathered_numel(submission));
    return;
  }
  const std::int64_t numel = request.numel();
  check_view(request, "input", submission.input.view, numel);
  check_view(request, "output", submission.output.view, numel);
  check_overlap(submission);
  const bool in_world = request.root >= 0 && request.root < size;
  if (request.kind == CollectiveKind::kBroadcast && !in_world) {
    refuse(request, "root rank " + std::to_string(request.root) + " is not in a world of " +
                        std::to_string(size));
  }
}

}  // namespace hvd
