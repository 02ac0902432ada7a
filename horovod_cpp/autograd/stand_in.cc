#include "horovod_cpp/autograd/stand_in.h"

#include <algorithm>
#include <functional>

namespace hvd {
namespace autograd {
namespace {

thread_local const StandIns::Pairs* current = nullptr;

const void* replaced_id(const std::pair<Tensor, Tensor>& pair) {
  return pair.first.id();
}

}  // namespace

StandIns::StandIns(const Pairs& pairs) : sorted_(pairs), previous_(current) {
  std::ranges::sort(sorted_, std::less<>(), replaced_id);
  current = &sorted_;
}

StandIns::~StandIns() {
  current = previous_;
}

Tensor stand_in_for(const Tensor& tensor) {
  if (current == nullptr) return tensor;
  const auto found = std::ranges::lower_bound(*current, tensor.id(), std::less<>(), replaced_id);
  return found != current->end() && found->first.is(tensor) ? found->second : tensor;
}

}  // namespace autograd
}  // namespace hvd
