#include "horovod_cpp/dist/world.h"

#include <exception>
#include <numeric>

#include "core/base/status.h"

namespace hvd {
namespace {

// Prefixes names, so that an allreduce and a broadcast of one parameter may be in flight together.
constexpr std::array<const char*, kCollectiveKindCount> kPrefixes = {"allreduce", "broadcast",
                                                                     "allgather"};

void check_output(const Tensor& input, const Tensor& output, const std::string& name) {
  if (output.is(input)) return;
  if (output.dtype() != input.dtype() || output.shape() != input.shape()) {
    throw InvalidArgumentError(name + ": output is " + to_string(output.shape()) + " " +
                               std::string(name_of(output.dtype())) + ", input is " +
                               to_string(input.shape()) + " " +
                               std::string(name_of(input.dtype())));
  }
}

}  // namespace

Tensor CollectiveHandle::synchronize() const {
  const Outcome& outcome = handle_.wait();
  if (outcome.gathered.owner == nullptr) return output_;
  Shape shape = row_shape_;
  shape.insert(shape.begin(),
               std::accumulate(outcome.rows_of.begin(), outcome.rows_of.end(), std::int64_t{0}));
  return Tensor::wrap(outcome.gathered.view.data, std::move(shape), outcome.gathered.view.dtype,
                      outcome.gathered.owner);
}

void synchronize_all(const std::vector<CollectiveHandle>& handles) {
  std::exception_ptr first_error;
  for (const CollectiveHandle& handle : handles) {
    try {
      handle.synchronize();
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  }
  if (first_error != nullptr) std::rethrow_exception(first_error);
}

Request World::named_request(CollectiveKind kind, const Tensor& input, const std::string& name) {
  if (!input.defined()) throw InvalidArgumentError("'" + name + "': the tensor is undefined");
  const auto index = static_cast<std::size_t>(kind);
  Request request;
  request.kind = kind;
  request.automatic_name = name.empty();
  request.name = std::string(kPrefixes[index]) + "." +
                 (name.empty() ? "noname." + std::to_string(unnamed_[index].fetch_add(1)) : name);
  request.dtype = input.dtype();
  request.device = input.device().kind;
  request.shape = input.shape();
  return request;
}

CollectiveHandle World::submit(Request request, const Tensor& input, const Tensor& output) {
  check_output(input, output, request.name);
  Submission submission;
  submission.request = std::move(request);
  submission.input = input.lease();
  submission.output = output.lease();
  return CollectiveHandle(runtime_->submit(std::move(submission)), output);
}

CollectiveHandle World::allreduce_async(const Tensor& input, const Tensor& output, ReduceOp op,
                                        const std::string& name) {
  Request request = named_request(CollectiveKind::kAllreduce, input, name);
  request.op = op;
  return submit(std::move(request), input, output);
}

CollectiveHandle World::broadcast_async(const Tensor& input, const Tensor& output, int root_rank,
                                        const std::string& name) {
  Request request = named_request(CollectiveKind::kBroadcast, input, name);
  if (root_rank < 0 || root_rank >= topology().size) {
    throw InvalidArgumentError(request.name + ": root rank " + std::to_string(root_rank) +
                               " is outside this world of " + std::to_string(topology().size) +
                               " ranks");
  }
  request.root = root_rank;
  return submit(std::move(request), input, output);
}

CollectiveHandle World::allgather_async(const Tensor& input, const std::string& name) {
  Request request = named_request(CollectiveKind::kAllgather, input, name);
  if (request.shape.empty()) {
    throw InvalidArgumentError(request.name + ": a scalar has no first axis to gather along");
  }
  Shape row_shape(request.shape.begin() + 1, request.shape.end());
  Submission submission;
  submission.rows = request.shape.front();
  request.shape = row_shape;
  submission.request = std::move(request);
  submission.input = input.lease();
  return CollectiveHandle(runtime_->submit(std::move(submission)), {}, std::move(row_shape));
}

}  // namespace hvd
