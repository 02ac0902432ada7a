#include "horovod_cpp/distributed/gradients/tensor_gradients.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd {
namespace {

RowGradient all_rows(const Tensor& gradient) {
  const Tensor rows = Tensor::empty({gradient.size(0)}, DType::kI64);
  for (std::int64_t i = 0; i < rows.numel(); ++i) rows.data<std::int64_t>()[i] = i;
  return {rows, gradient.contiguous()};
}

}  // namespace

class TensorGradients::Unlocked {
 public:
  explicit Unlocked(const Entry& entry) : entry_(entry) { set_grad_lock(entry.param, nullptr); }
  ~Unlocked() {
    const bool is_whole = entry_.taken.empty() && entry_.reduced.empty();
    if (!is_whole) set_grad_lock(entry_.param, entry_.lock);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  const Entry& entry_;
};

TensorGradients::TensorGradients(const NamedTensors& parameters, const DistributedOptions& options,
                                 std::string owner)
    : owner_(std::move(owner)), sparse_as_dense_(options.sparse_as_dense), op_(options.op) {
  add(parameters);
}

void TensorGradients::add(const NamedTensors& parameters) {
  for (const auto& [name, param] : parameters) {
    const GradientReducer* other = GradientClaims::of(param.id())->newest();
    if (other == nullptr || other->owner() == owner_) continue;
    throw InvalidArgumentError(owner_ + ": the gradient of '" + name + "' is reduced by a " +
                               other->owner() + " already; use one of the two");
  }
  for (const auto& [name, param] : parameters) {
    if (!is_floating(param.dtype())) continue;
    Entry& entry = entries_.emplace_back();
    entry.param = param;
    entry.by_rows = !sparse_as_dense_ && travels_by_rows(param, op_);
    set_grad_memory(param, {});  // of an optimizer before
    parameters_.push_back({name, param.shape(), param.dtype(), param.device(), param.id()});
  }
  if (optimizer_ != nullptr) make_locks();
}

void TensorGradients::set_optimizer(optim::Optimizer* optimizer) {
  optimizer_ = optimizer;
  make_locks();
}

void TensorGradients::make_locks() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].lock = std::make_shared<const std::string>(
        owner_ + ": the gradient of '" + parameters_[i].name +
        "' is being reduced; read, clip, set or zero gradients after synchronize() or step()");
  }
}

TensorGradients::~TensorGradients() {
  for (const Entry& entry : entries_) {
    for (const auto& remove : entry.remove_hooks) remove();
    if (entry.lock != nullptr && grad_lock(entry.param) == entry.lock)
      set_grad_lock(entry.param, nullptr);
    if (entry.memory.defined() && grad_memory(entry.param).is(entry.memory)) {
      set_grad_memory(entry.param, {});
    }
  }
}

void TensorGradients::hook(const std::weak_ptr<GradientReducer>& weak) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!entry.remove_hooks.empty()) continue;
    const bool trained = entry.param.requires_grad();
    entry.param.requires_grad_(true);  // hooks are of what has a gradient; it may thaw
    entry.remove_hooks.push_back(autograd::before_delivery(entry.param, [weak, i](const Tensor&) {
      if (const auto reducer = weak.lock()) reducer->before_gradient(i);
    }));
    entry.remove_hooks.push_back(entry.param.register_hook([weak, i](const Tensor&) {
      const auto reducer = weak.lock();
      if (reducer != nullptr && reducer->count_gradient(i)) reducer->start_ready();
    }));
    entry.param.requires_grad_(trained);
  }
}

GradientBuckets TensorGradients::numbered(const std::vector<std::vector<Tensor>>& groups) const {
  std::map<const void*, std::size_t> number_of;
  for (std::size_t i = 0; i < entries_.size(); ++i) number_of[entries_[i].param.id()] = i;
  GradientBuckets result;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    result.emplace_back();
    for (const Tensor& param : groups[g]) {
      const auto found = number_of.find(param.id());
      if (found == number_of.end()) {
        throw InvalidArgumentError(owner_ + ": groups[" + std::to_string(g) +
                                   "] has a tensor of shape " + to_string(param.shape()) +
                                   " that is not a parameter of the optimizer");
      }
      result.back().push_back(found->second);
    }
  }
  return result;
}

std::vector<bool> TensorGradients::trained() const {
  std::vector<bool> trained;
  for (const Entry& entry : entries_) trained.push_back(entry.param.requires_grad());
  return trained;
}

std::string TensorGradients::options() const {
  if (optimizer_ == nullptr) return "";
  std::string text;
  const auto& groups = optimizer_->param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const auto& [name, value] : groups[g].options) {
      text += name + " of group " + std::to_string(g) + "\t" + shortest_text(value) + "\n";
    }
  }
  return text;
}

Tensor TensorGradients::value(std::size_t index) const {
  return entries_[index].param.detach().to(Device{}).contiguous();
}

void TensorGradients::Part::add(Part other) {
  if (!dense.defined()) {
    dense = std::move(other.dense);
  } else if (other.dense.defined()) {
    dense.add_(other.dense);
  }
  std::ranges::move(other.rows, std::back_inserter(rows));
}

TensorGradients::Part TensorGradients::move_from(Entry& entry) {
  Part part;
  if (auto rows = row_gradient(entry.param)) {
    part.rows.push_back(std::move(*rows));
  } else {
    part.dense = entry.param.grad();
  }
  entry.param.set_grad({});
  // backward() must not write over what lies there.
  if (!part.empty()) set_grad_memory(entry.param, {});
  return part;
}

TensorGradients::Part TensorGradients::copy_of(const Tensor& param) {
  Part part;
  if (const auto rows = row_gradient(param)) {
    part.rows.push_back({rows->rows.clone(), rows->values.clone()});
  } else if (const Tensor gradient = param.grad(); gradient.defined()) {
    part.dense = gradient.clone();
  }
  return part;
}

void TensorGradients::move_to_gradient(Part part, Tensor& param) {
  if (part.dense.defined()) param.set_grad(std::move(part.dense));
  for (const RowGradient& each : part.rows) add_row_gradient(param, each.rows, each.values);
}

bool TensorGradients::take(Indices which, bool sends, std::vector<CallTensor>& tensors) {
  const NoGradGuard no_grad;
  for (const std::size_t i : which) {
    Entry& entry = entries_[i];
    check_dtype(i);
    const Unlocked unlocked(entry);
    entry.apart = false;
    entry.frozen = entry.param.requires_grad() ? Part{} : copy_of(entry.param);
    if (entry.by_rows) {
      auto rows = gradient_as_rows(entry.param);
      if (!rows && sends) rows = no_rows(entry.param);
      if (rows) entry.taken.rows.push_back(std::move(*rows));
      entry.param.set_grad({});
    } else {
      entry.taken.dense = take_dense(entry, sends);
    }
    tensors.push_back({.input = entry.taken.dense});
  }
  return false;
}

Tensor TensorGradients::take_dense(Entry& entry, bool sends) {
  Tensor gradient = entry.param.grad();
  // The memory is taken until the gradient is given back: backward() must not write into it.
  const bool into_memory = entry.memory.defined() && !entry.reduced.dense.is(entry.memory);
  set_grad_memory(entry.param, {});
  if (!gradient.defined()) {
    if (into_memory) return Tensor(entry.memory).zero_();
    return sends ? zeros_like(entry.param) : gradient;
  }
  entry.param.set_grad({});
  if (into_memory && !gradient.is(entry.memory)) {  // the program put its own tensor there
    return Tensor(entry.memory).copy_(gradient);
  }
  if (!gradient.is_contiguous()) gradient = gradient.contiguous();
  // The program may have given one gradient to several parameters; each is reduced in place.
  if (entry.param.device().kind != DeviceKind::kCpu)
    return gradient;  // its memory is not known here
  return places_.insert(gradient.data()).second ? gradient : gradient.clone();
}

// Module::to() may come after wrapping.
void TensorGradients::check_dtype(std::size_t index) const {
  const DType now = entries_[index].param.dtype();
  const GradientParameter& wrapped = parameters_[index];
  if (now == wrapped.dtype) return;
  throw InvalidArgumentError(
      owner_ + ": parameter '" + wrapped.name + "' is " + std::string(name_of(now)) + ", and was " +
      std::string(name_of(wrapped.dtype)) + " when it was wrapped; convert the module first");
}

// What was taken is apart already.
void TensorGradients::make_room(std::size_t index) {
  const NoGradGuard no_grad;
  Entry& entry = entries_[index];
  const Unlocked unlocked(entry);
  entry.apart = true;
  if (entry.taken.empty()) entry.reduced.add(move_from(entry));
}

void TensorGradients::set_aside(Indices which) {
  const NoGradGuard no_grad;
  for (const std::size_t i : which) {
    entries_[i].reduced.add(std::exchange(entries_[i].taken, {}));
    entries_[i].apart = false;
  }
}

void TensorGradients::give_back(Indices which) {
  set_aside(which);
  places_.clear();
  for (const std::size_t i : which) {
    Entry& entry = entries_[i];
    const Unlocked unlocked(entry);
    move_to_gradient(std::exchange(entry.reduced, {}), entry.param);
    entry.frozen = {};
    set_grad_memory(entry.param, entry.memory);
  }
}

void TensorGradients::drop(Indices which) {
  for (const std::size_t i : which) {
    Entry& entry = entries_[i];
    const Unlocked unlocked(entry);
    entry.windows = entry.taken = entry.reduced = entry.frozen = {};
    entry.apart = false;
    set_grad_memory(entry.param, entry.memory);
  }
}

void TensorGradients::leave(Indices which) {
  const NoGradGuard no_grad;
  for (const std::size_t i : which) {
    Part before = std::exchange(entries_[i].frozen, {});
    drop(Indices(&i, 1));
    move_to_gradient(std::move(before), entries_[i].param);
  }
}

void TensorGradients::close_window(std::size_t index, int passes) {
  const NoGradGuard no_grad;
  Entry& entry = entries_[index];
  const Unlocked unlocked(entry);
  const Tensor values = gradient_values(entry.param);
  if (values.defined() && passes > 1) Tensor(values).mul_(1.0 / passes);
  entry.windows.add(move_from(entry));
}

void TensorGradients::average(std::size_t index, int passes) {
  close_window(index, passes);
  Entry& entry = entries_[index];
  const Unlocked unlocked(entry);
  move_to_gradient(std::exchange(entry.windows, {}), entry.param);
}

void TensorGradients::clip(Indices which, double max_norm) {
  std::vector<Tensor> params;
  std::deque<Unlocked> unlocked;
  for (const std::size_t i : which) {
    params.push_back(entries_[i].param);
    unlocked.emplace_back(entries_[i]);
  }
  optim::clip_grad_norm_(params, max_norm);
}

void TensorGradients::move_to(std::size_t index, Tensor memory) {
  const NoGradGuard no_grad;
  Entry& entry = entries_[index];
  entry.memory = std::move(memory);
  set_grad_memory(entry.param, entry.memory);
  const Tensor gradient = entry.param.grad();
  if (gradient.defined()) entry.param.set_grad(Tensor(entry.memory).copy_(gradient));
}

std::vector<std::int64_t> TensorGradients::sparse_axes() const {
  std::vector<std::int64_t> axes;
  for (const Entry& entry : entries_) axes.push_back(entry.by_rows ? 1 : 0);
  return axes;
}

std::shared_ptr<CallInFlight> TensorGradients::start_sparse(std::size_t index,
                                                            const ReduceOptions& call) {
  Entry& entry = entries_[index];
  entry.rows_call = start_sparse_allreduce(entry.taken.rows.front(), call);
  return entry.rows_call;
}

void TensorGradients::finish_sparse(std::size_t index) {
  Entry& entry = entries_[index];
  const auto call = std::exchange(entry.rows_call, nullptr);
  if (call != nullptr) entry.taken.rows = {row_gradient_of(call->result({}), {.op = op_})};
}

void TensorGradients::after_backward(std::function<void()> function) {
  autograd::after_backward(this, std::move(function));
}

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

TensorReducer make_tensor_reducer(const NamedTensors& parameters, const DistributedOptions& options,
                                  const std::string& owner) {
  const bool active = needs_reducer(options);
  TensorReducer made;
  made.gradients =
      std::make_shared<TensorGradients>(active ? parameters : NamedTensors{}, options, owner);
  const GradientBuckets groups =
      active ? made.gradients->numbered(options.groups) : GradientBuckets{};
  made.reducer = std::make_shared<GradientReducer>(made.gradients, options, groups, owner);
  made.gradients->hook(made.reducer);
  return made;
}

}  // namespace hvd
