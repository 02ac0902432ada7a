#include "ops/connect/rank_gpu.h"

#include "ops/connect/gpu_assignments.h"
#include "ops/connect/nccl_library.h"

namespace hvd {

RankGpu rank_gpu(const NcclLibrary& library, const Topology& place) {
  return {device_for(place.local_rank, library.module->devices()), library.module};
}

}  // namespace hvd
