#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/reduction.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// The gradients of our own tensors. From take() to give_back() a parameter has no grad(): it is
// what is reduced, and another pass makes one of its own.
class TensorGradients final : public GradientAccess {
 public:
  // Those of `parameters`, of which frozen ones may thaw. InvalidArgumentError where one has an
  // owner of another class, which would take the gradient away as well. `owner`: the class that
  // reduces.
  TensorGradients(const NamedTensors& parameters, const DistributedOptions& options,
                  std::string owner);
  ~TensorGradients() override;
  TensorGradients(const TensorGradients&) = delete;
  TensorGradients& operator=(const TensorGradients&) = delete;

  // More of them.
  void add(const NamedTensors& parameters);
  // Tells the reducer of gradients while it lives; also of those that were added since.
  void hook(const std::weak_ptr<GradientReducer>& reducer);
  const Tensor& param(std::size_t index) const { return entries_[index].param; }
  // Whose options ranks compare, and whose users must not touch gradients between backward() and
  // step(); it outlives this. (DistributedDataParallel reduces inside backward().)
  void set_optimizer(optim::Optimizer* optimizer);
  // The parameters of options.groups by number; InvalidArgumentError on one that is not here.
  GradientBuckets numbered(const std::vector<std::vector<Tensor>>& groups) const;

  const std::vector<GradientParameter>& parameters() const override { return parameters_; }
  std::vector<bool> trained() const override;
  std::string options() const override;
  Tensor value(std::size_t index) const override;
  bool take(Indices which, bool sends, std::vector<CallTensor>& tensors) override;
  void arrived(Indices) override {}
  void make_room(std::size_t index) override;
  void set_aside(Indices which) override;
  void give_back(Indices which) override;
  void drop(Indices which) override;
  void leave(Indices which) override;
  void close_window(std::size_t index, int passes) override;
  void average(std::size_t index, int passes) override;
  void clip(Indices which, double max_norm) override;
  void move_to(std::size_t index, Tensor memory) override;
  std::vector<std::int64_t> sparse_axes() const override;
  void set_sparse_axes(std::span<const std::int64_t>) override {}  // equal from the beginning
  std::shared_ptr<CallInFlight> start_sparse(std::size_t index, const ReduceOptions& call) override;
  void finish_sparse(std::size_t index) override;
  void after_backward(std::function<void()> function) override;

 private:
  // A gradient, as a whole or as rows, apart from the parameter.
  struct Part {
    Tensor dense;
    std::vector<RowGradient> rows;

    bool empty() const { return !dense.defined() && rows.empty(); }
    void add(Part other);
  };
  struct Entry {
    Tensor param;
    bool by_rows = false;  // its gradient travels as rows
    Part windows;          // the means of closed ones, which belong to the gradient
    Part taken;
    Part reduced;        // sum of what was set aside
    Part frozen;         // a copy of what was taken of a frozen parameter
    bool apart = false;  // the parameter's gradient has come after what was taken
    Tensor memory;       // in the arena; undefined: the gradient lies anywhere
    std::shared_ptr<const std::string> lock;  // while a part is in `taken` or `reduced`; null: none
    std::shared_ptr<CallInFlight> rows_call;
    std::vector<std::function<void()>> remove_hooks;
  };
  // While one lives, this reads and sets the parameter's gradient, whatever is elsewhere.
  class Unlocked;
  // The parameter has no gradient then.
  static Part move_from(Entry& entry);
  static Part copy_of(const Tensor& param);
  static void move_to_gradient(Part part, Tensor& param);
  Tensor take_dense(Entry& entry, bool sends);
  void check_dtype(std::size_t index) const;
  void make_locks();

  const std::string owner_;
  const bool sparse_as_dense_;
  const ReduceOp op_;
  optim::Optimizer* optimizer_ = nullptr;
  std::vector<Entry> entries_;
  std::set<const void*> places_;  // addresses of what was taken
  std::vector<GradientParameter> parameters_;
};

// -- gradients that are rows

// Whether an Average or Sum of its gradients over the ranks is one of rows.
bool travels_by_rows(const Tensor& param, ReduceOp op);
// The gradient as rows, all of them if it is a whole one; nothing without one. Memory of the
// gradient's, not a copy.
std::optional<RowGradient> gradient_as_rows(const Tensor& param);
// A gradient of its shape that is zero.
RowGradient no_rows(const Tensor& param);

// A reducer of tensors' gradients, and what it reads them through; null where it has nothing to do.
struct TensorReducer {
  std::shared_ptr<TensorGradients> gradients;
  std::shared_ptr<GradientReducer> reducer;
};
TensorReducer make_tensor_reducer(const NamedTensors& parameters, const DistributedOptions& options,
                                  const std::string& owner);

}  // namespace hvd
