#include "horovod_cpp/autograd/row_gradient.h"

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/indexing/indexing.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace {

void check(const Tensor& leaf, const Tensor& rows, const Tensor& values) {
  Shape expected = leaf.shape();
  bool fits = leaf.is_leaf() && leaf.record() != nullptr && !expected.empty() && rows.dim() == 1 &&
              rows.dtype() == DType::kI64 && values.dtype() == leaf.dtype();
  if (fits) expected[0] = rows.numel();
  if (!fits || values.shape() != expected) {
    throw InvalidArgumentError("add_row_gradient: rows " + to_string(rows.shape()) +
                               " and values " + to_string(values.shape()) + " for a tensor " +
                               to_string(leaf.shape()));
  }
  for (const double row : rows.to_vector()) {
    if (row >= 0 && row < static_cast<double>(leaf.size(0))) continue;
    throw InvalidArgumentError("add_row_gradient: row " + std::to_string(row) + " of a tensor " +
                               to_string(leaf.shape()));
  }
}

}  // namespace

RowGradient coalesce(const RowGradient& gradient) {
  const Tensor rows = kernels::contiguous(gradient.rows);
  std::map<std::int64_t, std::int64_t> places;
  for (std::int64_t i = 0; i < rows.numel(); ++i) places[rows.data<std::int64_t>()[i]] = 0;
  std::vector<std::int64_t> kept;
  for (auto& [row, place] : places) {
    place = static_cast<std::int64_t>(kept.size());
    kept.push_back(row);
  }
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    targets.push_back(places.at(rows.data<std::int64_t>()[i]));
  }
  Shape shape = gradient.values.shape();
  shape[0] = static_cast<std::int64_t>(kept.size());
  const RowGradient result = {Tensor::from(kept, {shape[0]}),
                              Tensor::zeros(shape, gradient.values.dtype())};
  kernels::add_rows(result.values, Tensor::from(targets, {rows.numel()}), gradient.values);
  return result;
}

std::optional<RowGradient> row_gradient(const Tensor& leaf) {
  const auto& place = leaf.record();
  if (place == nullptr) return std::nullopt;
  autograd::require_unlocked(*place);
  if (place->rows.empty() || place->grad.defined()) return std::nullopt;
  if (place->rows.size() > 1) {
    std::vector<std::int64_t> rows;
    for (const RowGradient& part : place->rows) {
      const std::int64_t* first = part.rows.data<std::int64_t>();
      rows.insert(rows.end(), first, first + part.rows.numel());
    }
    Shape shape = leaf.shape();
    shape[0] = static_cast<std::int64_t>(rows.size());
    const Tensor values = Tensor::empty(shape, leaf.dtype());
    std::int64_t at = 0;
    for (const RowGradient& part : place->rows) {
      kernels::copy_into(values.slice(0, at, at + part.rows.numel()), part.values);
      at += part.rows.numel();
    }
    place->rows = {coalesce({Tensor::from(rows, {shape[0]}), values})};
  }
  return place->rows.front();
}

Tensor gradient_values(const Tensor& leaf) {
  const auto rows = row_gradient(leaf);
  return rows ? rows->values : leaf.grad();
}

void expect_row_gradients(const Tensor& leaf) {
  if (!leaf.is_leaf() || !leaf.requires_grad() || leaf.dim() == 0) {
    throw InvalidArgumentError("expect_row_gradients: a tensor " + to_string(leaf.shape()) +
                               " that has no rows or is not a leaf that requires grad");
  }
  leaf.record()->expects_rows = true;
}

bool expects_row_gradients(const Tensor& leaf) {
  return leaf.record() != nullptr && leaf.record()->expects_rows;
}

void add_row_gradient(const Tensor& leaf, const Tensor& rows, const Tensor& values) {
  check(leaf, rows, values);
  leaf.record()->rows.push_back(coalesce({rows, values}));
}

namespace autograd {
namespace {

thread_local bool delivering = false;

}  // namespace

DeliveryScope::DeliveryScope(bool to_leaves) : previous_(delivering) {
  delivering = to_leaves;
}

DeliveryScope::~DeliveryScope() {
  delivering = previous_;
}

bool takes_rows(const Tensor& leaf) {
  const auto& place = leaf.record();
  return delivering && !place->grad_memory.defined() && !place->grad.defined();
}

void deliver_rows(const Tensor& leaf, const Tensor& rows, const Tensor& values) {
  call_hooks(leaf.record()->before_hooks, leaf);
  add_row_gradient(leaf, rows, values);
  leaf.record()->rows_arrived = true;
}

void make_dense(const Tensor& leaf) {
  Record& place = *leaf.record();
  if (place.rows.empty()) return;
  if (!place.grad.defined()) place.grad = Tensor::zeros(leaf.shape(), leaf.dtype());
  for (const RowGradient& part : place.rows) {
    kernels::add_rows(place.grad, part.rows, part.values);
  }
  place.rows.clear();
}

}  // namespace autograd
}  // namespace hvd
