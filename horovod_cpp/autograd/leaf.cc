// The members of Tensor that concern its place in the graph, grad_memory.h and row_gradient.h.
#include <algorithm>
#include <map>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/indexing/indexing.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

autograd::Record& own_record(const Tensor& tensor) {
  std::shared_ptr<autograd::Record>& place = tensor.record();
  if (place == nullptr) place = std::make_shared<autograd::Record>();
  return *place;
}

void check_gradient(const char* function, const Tensor& leaf, const Tensor& grad) {
  if (!grad.defined()) return;
  if (grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype()) {
    return require_same_device(function, leaf, grad);
  }
  throw InvalidArgumentError(function, ": ", grad.shape(), " ", grad.dtype(), " for a tensor ",
                             leaf.shape(), " ", leaf.dtype());
}

}  // namespace

bool Tensor::requires_grad() const {
  return autograd::requires_grad(*this);
}

bool Tensor::is_leaf() const {
  return record() == nullptr || record()->node == nullptr;
}

Tensor& Tensor::requires_grad_(bool value) {
  if (!is_leaf()) {
    throw InvalidArgumentError("requires_grad_: only leaves can change it; use detach()");
  }
  if (value && !is_floating(dtype())) {
    throw InvalidArgumentError("requires_grad_: only floating dtypes have gradients, not ",
                               dtype());
  }
  if (value || record() != nullptr) own_record(*this).requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  if (record() == nullptr) return {};
  autograd::require_unlocked(*record());
  autograd::make_dense(*this);
  return record()->grad;
}

void Tensor::set_grad(Tensor grad) {
  check_gradient("set_grad", *this, grad);
  if (!grad.defined() && record() == nullptr) return;
  autograd::require_unlocked(own_record(*this));
  own_record(*this).grad = std::move(grad);
  record()->rows.clear();
}

Tensor grad_memory(const Tensor& leaf) {
  return leaf.record() == nullptr ? Tensor() : leaf.record()->grad_memory;
}

void set_grad_memory(const Tensor& leaf, Tensor memory) {
  check_gradient("set_grad_memory", leaf, memory);
  if (memory.defined() && !memory.is_contiguous()) {
    throw InvalidArgumentError("set_grad_memory: a tensor of shape ", memory.shape(),
                               " that is not contiguous");
  }
  if (!memory.defined() && leaf.record() == nullptr) return;
  own_record(leaf).grad_memory = std::move(memory);
}

std::shared_ptr<const std::string> grad_lock(const Tensor& leaf) {
  return leaf.record() == nullptr ? nullptr : leaf.record()->grad_lock;
}

void set_grad_lock(const Tensor& leaf, std::shared_ptr<const std::string> why) {
  if (why != nullptr || leaf.record() != nullptr) own_record(leaf).grad_lock = std::move(why);
}

std::function<void()> Tensor::register_hook(std::function<void(const Tensor& leaf)> hook) const {
  if (!requires_grad() || !is_leaf()) {
    throw InvalidArgumentError("register_hook: takes a leaf that requires grad");
  }
  return add_hook(record(), &autograd::Record::hooks, std::move(hook));
}

namespace autograd {

void require_unlocked(const Record& place) {
  if (place.grad_lock != nullptr) throw InvalidArgumentError(*place.grad_lock);
}

std::function<void()> before_delivery(const Tensor& leaf,
                                      std::function<void(const Tensor& leaf)> hook) {
  return add_hook(leaf.record(), &Record::before_hooks, std::move(hook));
}

void call_hooks(const LeafHooks& hooks, const Tensor& leaf) {
  const auto entries = hooks.entries;
  for (const auto& [id, hook] : entries) hook(leaf);
}

}  // namespace autograd

Tensor Tensor::detach() const {
  return kernels::alias(*this);
}

namespace {

void check(const Tensor& leaf, const Tensor& rows, const Tensor& values) {
  Shape expected = leaf.shape();
  bool fits = leaf.is_leaf() && leaf.record() != nullptr && !expected.empty() && rows.dim() == 1 &&
              rows.dtype() == DType::kI64 && values.dtype() == leaf.dtype();
  if (fits) expected[0] = rows.numel();
  if (!fits || values.shape() != expected) {
    throw InvalidArgumentError("add_row_gradient: rows ", rows.shape(), " and values ",
                               values.shape(), " for a tensor ", leaf.shape());
  }
  for (const double row : rows.to_vector()) {
    if (row >= 0 && row < static_cast<double>(leaf.size(0))) continue;
    throw InvalidArgumentError("add_row_gradient: row ", row, " of a tensor ", leaf.shape());
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
    throw InvalidArgumentError("expect_row_gradients: a tensor ", leaf.shape(),
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

bool& delivers_to_leaves() {
  thread_local bool delivers = false;
  return delivers;
}

bool takes_rows(const Tensor& leaf) {
  const auto& place = leaf.record();
  return delivers_to_leaves() && !place->grad_memory.defined() && !place->grad.defined();
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
