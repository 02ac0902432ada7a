#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/tensor_view.h"
#include "core/runtime/arena.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Memory for the gradients of some parameters in arenas of a process set, one for each device on
// which there are some, in reverse order, as backward() mostly comes by. For one thread.
class GradientViews {
 public:
  GradientViews() = default;  // none
  // Asks for the arenas, under `name`, which no other optimizer of the set uses at the same time,
  // and which does not depend on what this rank asked for before: others may have asked in another
  // order. Never waits. All ranks of the set must ask, and the job must
  // serve the parameters' devices: expect_served().
  GradientViews(std::vector<GradientParameter> params, const ProcessSet& set,
                const std::string& name);

  // Once, waiting for ranks that have not asked yet: tensors of the parameters' shapes, dtypes and
  // devices, uninitialised; undefined where the ranks do not share memory of that device. They keep
  // the memory; a GPU's is used in the order of tensors of our own. Throws what an arena failed
  // with, MismatchError when the parameters take not the same room on all ranks.
  std::vector<Tensor> take();

 private:
  struct Part {
    Device device;
    std::size_t bytes = 0;
    engine::ArenaHandle arena;
  };
  Part& part_of(const Device& device);

  std::vector<GradientParameter> params_;  // empty: there is nothing to take (any more)
  std::vector<Part> parts_;                // in the order of the first parameter there
};

}  // namespace hvd
