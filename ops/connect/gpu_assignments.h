#pragma once

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/topology.h"
#include "core/config/config.h"
#include "ops/connect/libraries.h"
#include "ops/nccl/module.h"

namespace hvd::engine {

// The GPU on which a rank's collectives of GPUs run, and what front ends need to hand over memory.
struct RankGpu {
  int device = 0;
  NcclModule* module = nullptr;  // lives as long as the process
};

// Of a rank that has one (claim_gpu() found no problem).
RankGpu rank_gpu(const NcclLibrary& library, const Topology& place);

// Which GPU a rank is about to use; what all ranks tell each other before they use them.
struct GpuAssignment {
  std::string host = {};
  std::string gpu = {};           // what tells it from all others: NcclModule::device_identity()
  std::string problem = {};       // why this rank has none; else empty
  std::string nccl_problem = {};  // why it has no NCCL, where that was asked for; else empty
  std::string id = {};            // NCCL's, of rank 0 alone
  static constexpr auto kFields =
      std::tuple(&GpuAssignment::host, &GpuAssignment::gpu, &GpuAssignment::problem,
                 &GpuAssignment::nccl_problem, &GpuAssignment::id);
};

// `claims`: of all ranks, in rank order. Throws UnsupportedError, with the same text on every rank,
// if a rank has no GPU, or, with NCCL, which refuses that, if two use the same one: it names both.
void check_gpu_claims(std::span<const GpuAssignment> claims, const std::string& gpu_operations);

// Never throws: what keeps this rank from using a GPU is the claim's problem.
GpuAssignment claim_gpu(const NcclLibrary& library, const std::string& host, const Topology& place,
                        const Config& config);

// Which device a rank takes of those that it sees: a launcher that shows each rank one of its own
// (CUDA_VISIBLE_DEVICES) has chosen, else they are dealt out by local rank. Throws
// UnsupportedError where there is none.
int device_for(Rank local_rank, int devices);

}  // namespace hvd::engine
