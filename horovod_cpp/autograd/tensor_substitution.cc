#include "horovod_cpp/autograd/tensor_substitution.h"

#include <algorithm>
#include <functional>

namespace hvd {
namespace autograd {
namespace {

thread_local const TensorSubstitution::Pairs* current = nullptr;

const void* replaced_id(const std::pair<Tensor, Tensor>& pair) {
  return pair.first.id();
}

}  // namespace

TensorSubstitution::TensorSubstitution(const Pairs& pairs) : sorted_(pairs), previous_(current) {
  std::ranges::sort(sorted_, std::less<>(), replaced_id);
  current = &sorted_;
}

TensorSubstitution::~TensorSubstitution() {
  current = previous_;
}

Tensor substitute_for(const Tensor& tensor) {
  if (current == nullptr) return tensor;
  const auto found = std::ranges::lower_bound(*current, tensor.id(), std::less<>(), replaced_id);
  return found != current->end() && found->first.is(tensor) ? found->second : tensor;
}

}  // namespace autograd
}  // namespace hvd
