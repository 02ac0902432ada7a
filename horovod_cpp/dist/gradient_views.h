#pragma once

#include <string>
#include <vector>

#include "core/runtime/arena.h"
#include "horovod_cpp/dist/process_set.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Memory for the gradients of some parameters in one arena of a process set, in reverse order, as
// backward() mostly comes by. For one thread.
class GradientViews {
 public:
  GradientViews() = default;  // none
  // Asks for the arena, under `name`; never waits. All ranks of the set must ask.
  GradientViews(std::vector<Tensor> params, const ProcessSet& set, const std::string& name);

  // Waits at most this long; true when take() would not wait.
  bool wait_for(Duration limit) const { return arena_.wait_for(limit); }
  // Once, waiting for ranks that have not asked yet: tensors of the parameters' shapes and dtypes,
  // uninitialised; none when the ranks do not share memory. They keep the memory. Throws what the
  // arena failed with, MismatchError when the parameters take not the same room on all ranks.
  std::vector<Tensor> take();

 private:
  std::vector<Tensor> params_;  // empty: there is nothing to take (any more)
  ArenaHandle arena_;
};

}  // namespace hvd
