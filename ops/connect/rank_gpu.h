#pragma once

#include "core/base/topology.h"
#include "ops/nccl/module.h"

namespace hvd {

struct NcclLibrary;

// The GPU on which a rank's collectives of GPUs run, and what front ends need to hand over memory.
struct RankGpu {
  int device = 0;
  NcclModule* module = nullptr;  // lives as long as the process
};

// Of a rank that has one (claim_gpu() found no problem).
RankGpu rank_gpu(const NcclLibrary& library, const Topology& place);

}  // namespace hvd
