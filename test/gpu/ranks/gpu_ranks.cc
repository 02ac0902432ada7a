// One rank of a job with tensors on GPUs; its place and how GPUs move come from the environment.
// test/gpu/run.sh starts as many as a job has. Exits with 1 when anything is wrong.
#include <cstdio>
#include <exception>

#include "core/base/config.h"
#include "core/runtime/runtime.h"
#include "ops/backends.h"
#include "ops/cuda/device.h"
#include "ops/gpu_claims.h"
#include "test/gpu/cases/rank_job.h"

int main() {
  try {
    const hvd::Config config = hvd::read_config();
    hvd::Ports ports = hvd::connect(config);
    hvd::Runtime runtime(std::move(ports.control), std::move(ports.collectives), config);
    const hvd::Topology place = runtime.topology();
    const int device = hvd::device_for(place.local_rank, hvd::find_cuda_devices().count);
    const std::string problems = hvd::test::run_rank_job(runtime, device);
    runtime.shutdown();
    std::printf("rank %d of %d: %s\n", place.rank, place.size,
                problems.empty() ? "all right" : problems.c_str());
    return problems.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_ranks: %s\n", error.what());
    return 1;
  }
}
