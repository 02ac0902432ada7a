// One rank of a job with tensors on GPUs; its place and how GPUs move come from the environment.
// test/gpu/run.sh starts as many as a job has. With the argument `contract` it runs the contract
// of the port Collective instead of a job. Exits with 1 when anything is wrong.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/runtime/runtime.h"
#include "ops/connect/backends.h"
#include "ops/connect/gpu_assignments.h"
#include "ops/cuda/device.h"
#include "test/gpu/cases/contract_cases.h"
#include "test/gpu/cases/rank_job.h"

namespace {

// What was wrong; empty if nothing was. A failed case has been printed.
std::string run_contract(hvd::engine::Ports ports, const hvd::Topology& place) {
  if (ports.collectives.size() < 2) throw hvd::UnsupportedError("there is no collective of GPUs");
  const auto collective =
      hvd::engine::test::on_device(std::move(ports.collectives.back()), place.rank);
  for (const hvd::engine::test::CollectiveCase& each : hvd::engine::test::collective_contract()) {
    SCOPED_TRACE(each.name);
    each.run(*collective, place.rank, place.size);
  }
  return ::testing::UnitTest::GetInstance()->Failed() ? "the contract does not hold" : "";
}

std::string run_job(hvd::engine::Ports ports, const hvd::Config& config) {
  hvd::engine::Runtime runtime(std::move(ports.control), std::move(ports.collectives), config);
  const int device = hvd::engine::device_for(runtime.topology().local_rank,
                                             hvd::engine::find_cuda_devices().count);
  std::string problems = hvd::engine::test::run_rank_job(runtime, device);
  runtime.shutdown();
  return problems;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    const hvd::Config config = hvd::read_config();
    hvd::engine::Ports ports = hvd::engine::connect(config);
    const hvd::Topology place = ports.control->topology();
    const bool contract = argc == 2 && std::string_view(argv[1]) == "contract";
    const std::string problems =
        contract ? run_contract(std::move(ports), place) : run_job(std::move(ports), config);
    std::printf("rank %d of %d: %s\n", place.rank, place.size,
                problems.empty() ? "all right" : problems.c_str());
    return problems.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_ranks: %s\n", error.what());
    return 1;
  }
}
