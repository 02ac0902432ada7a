#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace autograd {

// While one lives, its thread has other tensors in the place of some: gradients of a leaf go to
// what stands for it, and what a layer writes (running statistics) it writes there. So several
// threads can run one module at the same time. Values of leaves are still read from the leaf, so a
// leaf's stand-in shares its memory. Scopes of a thread nest; the inner one alone counts.
class TensorSubstitution {
 public:
  using Pairs = std::vector<std::pair<Tensor, Tensor>>;  // what, and what stands for it

  explicit TensorSubstitution(const Pairs& pairs);
  ~TensorSubstitution();
  TensorSubstitution(const TensorSubstitution&) = delete;
  TensorSubstitution& operator=(const TensorSubstitution&) = delete;

 private:
  Pairs sorted_;  // by the id of what is replaced
  const Pairs* previous_;
};

// What stands for `tensor` on this thread: mostly the tensor itself.
Tensor substitute_for(const Tensor& tensor);

}  // namespace autograd
}  // namespace hvd
