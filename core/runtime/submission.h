#pragma once

#include <cstdint>

#include "core/base/tensor_view.h"
#include "core/negotiate/request.h"
#include "core/runtime/fence.h"

namespace hvd {

// One collective call of one rank. Memory is kept alive by the leases until the handle is done;
// their owners are let go by the thread that waits for the handle (by the coordinator if the
// handle was dropped before, or if the submission failed).
struct Submission {
  Request request;
  Lease input;
  Lease output;           // allreduce and broadcast; may be the same memory as input
  std::int64_t rows = 0;  // allgather: this rank's first dimension
  Fence ready;            // input may be read past this point
};

// Throws InvalidArgumentError naming the tensor and the offending values when the submission does
// not fit its request or a world of `size` ranks.
void check(const Submission& submission, int size);

}  // namespace hvd
