#pragma once

#include <string>

#include "core/runtime/runtime.h"

namespace hvd::engine::test {

// What each rank of a job does with tensors on `device` and on the host: batches of many sizes by
// sum and average, broadcasts, several in flight. Returns what was wrong, empty if nothing was;
// throws what the job throws.
std::string run_rank_job(Runtime& runtime, int device);

}  // namespace hvd::engine::test
