#include <string>

#include "core/base/status.h"
#include "ops/cuda/reduce.h"

namespace hvd::engine {

void check_reduce(DType dtype, const Reduction& reduction, const ReduceInputs& inputs) {
  if (reduction.op == ReduceOp::kAverage || reduction.op == ReduceOp::kAdasum) {
    throw InvalidArgumentError("a reduction on the device is elementwise, not " +
                               std::string(name_of(reduction.op)));
  }
  check_reduction(dtype, reduction);
  if (inputs.ranks < 1 || inputs.ranks > ReduceInputs::kMostRanks) {
    throw InvalidArgumentError("a reduction on the device of " + std::to_string(inputs.ranks) +
                               " ranks: 1 to " + std::to_string(ReduceInputs::kMostRanks));
  }
}

}  // namespace hvd::engine
