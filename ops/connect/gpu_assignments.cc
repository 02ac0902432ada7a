#include "ops/connect/gpu_assignments.h"

#include <map>
#include <utility>

#include "core/base/status.h"
#include "ops/connect/libraries.h"

namespace hvd::engine {

RankGpu rank_gpu(const NcclLibrary& library, const Topology& place) {
  return {device_for(place.local_rank, library.module->devices()), library.module};
}

namespace {

// The device that this rank takes.
int own_device(NcclModule& module, Rank local_rank) {
  const int devices = module.devices();
  if (devices == 0) throw UnsupportedError(module.describe_devices());
  return device_for(local_rank, devices);
}

}  // namespace

void check_gpu_claims(std::span<const GpuAssignment> claims, const std::string& gpu_operations) {
  std::map<std::string, std::size_t> first;  // rank by GPU
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    const GpuAssignment& claim = claims[rank];
    const std::string& problem =
        claim.problem.empty() && gpu_operations == "nccl" ? claim.nccl_problem : claim.problem;
    if (!problem.empty()) {
      throw UnsupportedError("HVD_GPU_OPERATIONS=", gpu_operations, ", but rank ", rank,
                             " on host ", claim.host, " cannot use it: ", problem);
    }
    const auto [other, is_new] = first.try_emplace(claim.gpu, rank);
    if (is_new || gpu_operations != "nccl") continue;
    throw UnsupportedError("ranks ", other->second, " and ", rank, " on host ", claim.host,
                           " both use the GPU ", claim.gpu,
                           ", and NCCL needs one for each: start no more ranks on a host than it "
                           "has GPUs, and let CUDA_VISIBLE_DEVICES show each rank its own or all "
                           "of them. HVD_GPU_OPERATIONS=ipc lets ranks share one");
  }
}

GpuAssignment claim_gpu(const NcclLibrary& library, const std::string& host, const Topology& place,
                        const Config& config) {
  GpuAssignment claim{.host = host};
  if (library.module == nullptr) {
    claim.problem = library.detail;
    return claim;
  }
  try {
    NcclModule& module = *library.module;
    claim.gpu = module.device_identity(own_device(module, place.local_rank));
    if (config.gpu_operations != "nccl" && config.gpu_operations != "auto") return claim;
    if (!module.has_nccl()) {
      claim.nccl_problem = module.nccl_detail();
    } else if (place.rank == 0) {
      try {
        claim.id = module.make_id();
      } catch (const Error& error) {
        claim.nccl_problem = error.what();
      }
    }
  } catch (const Error& error) {
    claim.problem = error.what();
  }
  return claim;
}

int device_for(Rank local_rank, int devices) {
  if (devices < 1) throw UnsupportedError("there is no CUDA device to take");
  return local_rank % devices;
}

}  // namespace hvd::engine
