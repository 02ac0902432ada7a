#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/tensor_view.h"
#include "horovod_cpp/distributed/collectives/engine_call.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// A parameter, as GradientReducer knows it.
struct GradientParameter {
  std::string name = {};  // unique, equal on all ranks
  Shape shape = {};
  DType dtype = DType::kF32;
  Device device = {};
  const void* identity = nullptr;  // tells it from other parameters that live at the same time

  std::size_t bytes() const { return static_cast<std::size_t>(numel_of(shape)) * size_of(dtype); }
};

// The parameters of one optimizer and their gradients, as a front end has them: what a front end
// implements, and GradientReducer calls, on the thread that calls the reducer. Parameters are
// numbered from 0, in the order of the optimizer.
//
// A gradient is taken, is reduced in place, arrives, and is given back. If backward() adds to it
// after it was taken, room is made first: what comes is apart from what was taken, and may be taken
// in its turn when that was set aside. What is given back is the sum of all that was taken.
class GradientAccess {
 public:
  using Indices = std::span<const std::size_t>;

  virtual ~GradientAccess() = default;

  // In order; more may be appended later.
  virtual const std::vector<GradientParameter>& parameters() const = 0;
  // For each whether it is trained at the moment, rather than frozen.
  virtual std::vector<bool> trained() const = 0;
  // Class and options of the optimizer, which ranks compare: lines "lr of group 0\t0.1".
  virtual std::string options() const { return ""; }
  // Its value, dense and on the CPU, for comparisons over the ranks.
  virtual Tensor value(std::size_t index) const = 0;

  // `sends`: appends to `tensors`, for each of them, what is reduced in place, contiguous;
  // undefined where it is sparse, for start_sparse(). A missing gradient becomes one of zeros. The
  // front end may send something else of its own, smaller than the gradient, that it decodes when
  // it arrived(). Else gradients stay on this rank: a missing one stays missing. True if a gradient
  // was sparse, and had to be made dense, against what set_sparse_axes() said.
  virtual bool take(Indices which, bool sends, std::vector<CallTensor>& tensors) = 0;
  // The reduction of what was taken, dense, has succeeded.
  virtual void arrived(Indices which) = 0;
  // backward() is about to add to a gradient that was taken, and may be in flight, or was given
  // back: it begins with none.
  virtual void make_room(std::size_t index) = 0;
  // What was taken is not in flight any more; another gradient will be.
  virtual void set_aside(Indices which) = 0;
  // What was taken and set aside becomes the gradient again.
  virtual void give_back(Indices which) = 0;
  // What was taken and set aside does not count.
  virtual void drop(Indices which) = 0;
  // drop(), of what no rank trains: the gradient becomes what it was when it was taken, if the
  // parameter was frozen then.
  virtual void leave(Indices which) = 0;

  // The gradient, the sum of this many passes, becomes their mean, and what comes is apart from it
  // until average().
  virtual void close_window(std::size_t index, int passes) = 0;
  // Before it is taken: the gradient becomes the mean of its passes (as it is if there was none or
  // one), plus those of the windows before.
  virtual void average(std::size_t index, int passes) = 0;
  // So that the joint L2 norm of these gradients is at most max_norm.
  virtual void clip(Indices which, double max_norm) = 0;
  // The memory, of the parameter's shape and dtype, in which its gradients lie from now on; called
  // when nothing is taken. What the gradient is now moves there.
  virtual void move_to(std::size_t index, Tensor memory) = 0;

  // For each over how many leading axes its gradients are sparse, as far as is known; 0: dense. The
  // ranks agree on the most.
  virtual std::vector<std::int64_t> sparse_axes() const = 0;
  virtual void set_sparse_axes(std::span<const std::int64_t> axes) = 0;
  // Starts the reduction of a sparse gradient that was taken.
  virtual std::shared_ptr<CallInFlight> start_sparse(std::size_t index,
                                                     const ReduceOptions& call) = 0;
  // That call is over, if it was started. Throws what it failed with.
  virtual void finish_sparse(std::size_t index) = 0;

  // Calls `function` when the backward() that runs on this thread has ended, unless it fails.
  virtual void after_backward(std::function<void()> function) = 0;
  // The stream of a GPU on which results are read.
  virtual MaybeStream reader(const Device& /*device*/) const { return {}; }
};

}  // namespace hvd
