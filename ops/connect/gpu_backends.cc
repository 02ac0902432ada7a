#include "ops/connect/gpu_backends.h"

#include <exception>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/fields.h"
#include "core/base/status.h"
#include "core/config/log.h"

namespace hvd::engine {
namespace {

// Subsets of host memory that work for GPUs; far above the numbers of process sets.
constexpr std::uint32_t kHostOfGpus = 0x7acc'0000;
constexpr std::uint32_t kHandshakesOfGpus = kHostOfGpus + 1;

// Why `operations` is right, or `problem`, where nothing can be done for all ranks.
GpuChoice choose_automatically(std::span<const GpuAssignment> claims, int hosts) {
  std::set<std::string> gpus;
  std::string without_nccl;
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    const GpuAssignment& claim = claims[rank];
    const std::string who = "rank " + std::to_string(rank) + " on host " + claim.host;
    if (!claim.problem.empty()) return {"none", who + " has no GPU: " + claim.problem};
    if (without_nccl.empty() && !claim.nccl_problem.empty()) {
      without_nccl = who + " has no NCCL: " + claim.nccl_problem;
    }
    gpus.insert(claim.gpu);
  }
  const bool one_each = gpus.size() == claims.size();
  if (one_each && without_nccl.empty()) return {"nccl", "each rank has a GPU of its own"};
  const std::string why = one_each ? without_nccl : "ranks share a GPU, which NCCL refuses";
  if (hosts == 1) return {"ipc", why};
  return {"host", why + ", and there are " + std::to_string(hosts) + " hosts"};
}

std::unique_ptr<Collective> make_collective(NcclModule& module, const GpuChoice& choice,
                                            const NcclPlace& place, const std::string& id,
                                            Collective& world) {
  if (choice.operations == "nccl") return module.make_collective(id, place);
  std::vector<Rank> everyone(static_cast<std::size_t>(place.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto host = world.subset(kHostOfGpus, everyone);
  if (choice.operations == "host") return module.make_staged_collective(std::move(host), place);
  return module.make_ipc_collective(std::move(host), world.subset(kHandshakesOfGpus, everyone),
                                    place);
}

// Throws, with the same text on every rank, if one could not make its collective.
void expect_everywhere(const std::vector<std::string>& problems,
                       std::span<const GpuAssignment> claims, const std::string& operations) {
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    throw UnsupportedError("HVD_GPU_OPERATIONS is ", operations, " here, which failed on rank ",
                           rank, " on host ", claims[rank].host, ": ", problems[rank]);
  }
}

}  // namespace

std::vector<BackendInfo> gpu_backends(const NcclLibrary& library) {
  if (library.module == nullptr) {
    return {{"cuda", false, library.detail},
            {"nccl", false, library.detail},
            {"ipc", false, library.detail}};
  }
  const NcclModule& module = *library.module;
  const bool has_device = module.devices() > 0;
  const std::string no_device = has_device ? "" : ", without a device";
  return {
      {"cuda", has_device, module.cuda_version() + ": " + module.describe_devices()},
      {"nccl", has_device && module.has_nccl(),
       module.nccl_detail() + no_device + ", through " + library.detail},
      {"ipc", has_device,
       "ranks of one host that share a GPU, where CUDA lets processes share memory" + no_device}};
}

GpuChoice choose_gpu_operations(std::span<const GpuAssignment> claims, const std::string& wanted,
                                int hosts) {
  if (wanted == "auto") return choose_automatically(claims, hosts);
  check_gpu_claims(claims, wanted);
  if (wanted != "ipc" || hosts == 1) return {wanted, "HVD_GPU_OPERATIONS asks for it"};
  return {"host", "HVD_GPU_OPERATIONS=ipc is for the ranks of one host, and there are " +
                      std::to_string(hosts)};
}

std::unique_ptr<Collective> connect_gpus(const NcclLibrary& library, const GpuTopology& here,
                                         const Config& config, const GpuAllGather& all_gather,
                                         Collective& world) {
  std::vector<GpuAssignment> claims;
  for (const std::string& text :
       all_gather(to_text(encode_fields(claim_gpu(library, here.host, here.place, config))))) {
    claims.push_back(decode_fields<GpuAssignment>(to_bytes(text)));
  }
  const GpuChoice choice = choose_gpu_operations(claims, config.gpu_operations, here.hosts);
  if (here.place.rank == 0) {
    const bool as_wanted = choice.operations == config.gpu_operations ||
                           (config.gpu_operations == "auto" && choice.operations != "none");
    log(as_wanted ? LogLevel::kInfo : LogLevel::kWarning,
        "HVD_GPU_OPERATIONS=" + config.gpu_operations + " is " + choice.operations +
            " here: " + choice.why);
  }
  if (choice.operations == "none") return nullptr;
  NcclModule& module = *library.module;
  const bool has_limit = config.stall_limit != Duration::zero();
  const NcclPlace place = {
      .rank = here.place.rank,
      .size = here.place.size,
      .device = device_for(here.place.local_rank, module.devices()),
      .connect_limit = config.start_timeout,
      .operation_limit = has_limit ? config.stall_limit + kBehindEngine : Duration::zero()};
  std::unique_ptr<Collective> made;
  std::string problem;
  try {
    made = make_collective(module, choice, place, claims.front().id, world);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  expect_everywhere(all_gather(problem), claims, choice.operations);
  return made;
}

}  // namespace hvd::engine
