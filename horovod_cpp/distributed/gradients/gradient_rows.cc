#include "horovod_cpp/distributed/gradients/gradient_rows.h"

namespace hvd {
namespace {

RowGradient all_rows(const Tensor& gradient) {
  const Tensor rows = Tensor::empty({gradient.size(0)}, DType::kI64);
  for (std::int64_t i = 0; i < rows.numel(); ++i) rows.data<std::int64_t>()[i] = i;
  return {rows, gradient.contiguous()};
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

RowGradient no_rows(const Tensor& param) {
  Shape shape = param.shape();
  shape[0] = 0;
  return {Tensor::empty({0}, DType::kI64), Tensor::empty(shape, param.dtype())};
}

}  // namespace hvd
