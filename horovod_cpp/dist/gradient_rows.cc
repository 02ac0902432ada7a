// Gradients that travel as rows: the steps of GradientReducer for them.
#include "horovod_cpp/dist/gradient_rows.h"

#include <exception>
#include <utility>

#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/dist/gradient_reducer.h"
#include "horovod_cpp/dist/sparse_allreduce.h"

namespace hvd {
namespace {

RowGradient all_rows(const Tensor& gradient) {
  const Tensor rows = Tensor::empty({gradient.size(0)}, DType::kI64);
  for (std::int64_t i = 0; i < rows.numel(); ++i) rows.data<std::int64_t>()[i] = i;
  return {rows, gradient.contiguous()};
}

RowGradient no_rows(const Tensor& param) {
  Shape shape = param.shape();
  shape[0] = 0;
  return {Tensor::empty({0}, DType::kI64), Tensor::empty(shape, param.dtype())};
}

}  // namespace

bool travels_by_rows(const Tensor& param, ReduceOp op) {
  return (op == ReduceOp::kAverage || op == ReduceOp::kSum) && expects_row_gradients(param);
}

std::optional<RowGradient> gradient_as_rows(const Tensor& param) {
  if (auto rows = row_gradient(param)) return rows;
  const Tensor whole = param.grad();
  return whole.defined() ? std::optional(all_rows(whole)) : std::nullopt;
}

std::optional<RowGradient> GradientReducer::take_rows(Entry& entry) {
  const NoGradGuard no_grad;
  const int passes = std::exchange(entry.passes, 0);
  std::optional<RowGradient> gradient = gradient_as_rows(entry.param);
  if (!gradient && reduces_) gradient = no_rows(entry.param);
  if (!gradient) return gradient;
  entry.param.set_grad({});
  if (options_.average_aggregated_gradients && passes > 1) gradient->values.mul_(1.0 / passes);
  return gradient;
}

void GradientReducer::start_rows(Bucket& bucket) {
  bucket.rows = take_rows(*bucket.entries.front());
  bucket.started = true;
  bucket.order = ++starts_;
  if (!reduces_) return finish(bucket);
  try {
    bucket.call = start_sparse_allreduce(
        *bucket.rows,
        {.op = options_.op, .name = bucket.call_name, .process_set = options_.process_set});
  } catch (...) {
    bucket.refusal = std::current_exception();
    throw;
  }
}

void GradientReducer::finish_rows(Bucket& bucket) {
  const std::shared_ptr<CallInFlight> call = std::exchange(bucket.call, nullptr);
  RowGradient gradient = *std::exchange(bucket.rows, std::nullopt);
  std::exception_ptr error = bucket.refusal;
  try {
    if (call != nullptr) gradient = row_gradient_of(call->result({}));
  } catch (...) {
    error = std::current_exception();
  }
  bucket.entries.front()->reduced_rows.push_back(std::move(gradient));
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace hvd
