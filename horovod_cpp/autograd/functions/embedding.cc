#include "horovod_cpp/autograd/functions/functions.h"

#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/indexing/indexing.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

void check(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  require_cpu("embedding", {&indices, &weight});
  if (indices.dtype() != DType::kI64 || weight.dim() != 2) {
    throw InvalidArgumentError("embedding: indices " + std::string(name_of(indices.dtype())) + " " +
                               to_string(indices.shape()) + " and weight " +
                               to_string(weight.shape()) +
                               ": expected int64 and [num_embeddings, embedding_dim]");
  }
  const std::int64_t count = weight.size(0);
  if (padding_idx && (*padding_idx < -count || *padding_idx >= count)) {
    throw InvalidArgumentError("embedding: padding_idx " + std::to_string(*padding_idx) +
                               " for weight " + to_string(weight.shape()));
  }
  const Tensor flat = kernels::contiguous(indices);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t index = flat.data<std::int64_t>()[i];
    if (index >= 0 && index < count) continue;
    throw InvalidArgumentError("embedding: index " + std::to_string(index) + " at position " +
                               std::to_string(i) + " of " + to_string(indices.shape()) +
                               " for weight " + to_string(weight.shape()));
  }
}

// Positions whose index is not `padding`.
Tensor positions_without(const Tensor& rows, std::int64_t padding) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    if (rows.data<std::int64_t>()[i] != padding) kept.push_back(i);
  }
  return Tensor::from(kept, {static_cast<std::int64_t>(kept.size())});
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx, bool sparse) {
  check(indices, weight, padding_idx);
  const Tensor rows = kernels::clone(kernels::contiguous(indices)).reshape({-1});
  Shape shape = indices.shape();
  shape.push_back(weight.size(1));
  Tensor result = kernels::reshape(kernels::gather_rows(weight, rows), shape);
  if (!autograd::should_record({&weight})) return result;
  std::int64_t padding = padding_idx.value_or(-1 - weight.size(0));
  if (padding_idx && padding < 0) padding += weight.size(0);
  const bool by_rows = sparse && weight.is_leaf();
  return autograd::record(
      std::move(result), "embedding", {autograd::edge_to(weight)},
      [rows, padding, shape = weight.shape(),
       leaf = by_rows ? autograd::substitute_for(weight) : Tensor()](const Tensor& gradient) {
        const Tensor kept = positions_without(rows, padding);
        if (grad_enabled()) {
          const Tensor flat = gradient.reshape({rows.numel(), shape[1]});
          return std::vector<Tensor>{index_add(Tensor::zeros(shape, gradient.dtype()), 0,
                                               kernels::gather_rows(rows, kept),
                                               index_select(flat, 0, kept))};
        }
        const Tensor flat =
            kernels::reshape(kernels::contiguous(gradient), {rows.numel(), shape[1]});
        const Tensor values = kernels::gather_rows(flat, kept);
        const Tensor where = kernels::gather_rows(rows, kept);
        if (leaf.defined() && autograd::takes_rows(leaf)) {
          autograd::deliver_rows(leaf, where, values);
          return std::vector<Tensor>(1);
        }
        Tensor dense = Tensor::zeros(shape, gradient.dtype());
        kernels::add_rows(dense, where, values);
        return std::vector<Tensor>{dense};
      },
      autograd::Order::kAny);
}

}  // namespace hvd
