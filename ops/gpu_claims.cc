#include "ops/gpu_claims.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace hvd {
namespace {

// The device that this rank takes.
int own_device(NcclModule& module, Rank local_rank) {
  const int devices = module.devices();
  if (devices == 0) throw UnsupportedError(module.describe_devices());
  return device_for(local_rank, devices);
}

}  // namespace

bool agree_on_nccl(const std::vector<bool>& wanted) {
  const auto other = std::find(wanted.begin(), wanted.end(), !wanted.front());
  if (other == wanted.end()) return wanted.front();
  const auto text = [](bool nccl) { return std::string(nccl ? "nccl" : "none"); };
  throw InvalidArgumentError("HVD_GPU_OPERATIONS is " + text(wanted.front()) + " on rank 0, but " +
                             text(*other) + " on rank " + std::to_string(other - wanted.begin()) +
                             ": set it to the same on all ranks");
}

std::string encode(const GpuClaim& claim) {
  Bytes bytes;
  ByteWriter writer(bytes);
  for (const auto* text : {&claim.host, &claim.gpu, &claim.problem, &claim.id}) {
    writer.put_string(*text);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

GpuClaim decode_gpu_claim(const std::string& text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  GpuClaim claim;
  for (auto* part : {&claim.host, &claim.gpu, &claim.problem, &claim.id}) {
    *part = reader.get_string();
  }
  reader.expect_end();
  return claim;
}

void check_gpu_claims(std::span<const GpuClaim> claims) {
  std::map<std::string, std::size_t> first;  // rank by GPU
  for (std::size_t rank = 0; rank < claims.size(); ++rank) {
    const GpuClaim& claim = claims[rank];
    if (!claim.problem.empty()) {
      throw UnsupportedError("HVD_GPU_OPERATIONS=nccl, but rank " + std::to_string(rank) +
                             " on host " + claim.host + " cannot use it: " + claim.problem);
    }
    const auto [other, is_new] = first.try_emplace(claim.gpu, rank);
    if (is_new) continue;
    throw UnsupportedError("ranks " + std::to_string(other->second) + " and " +
                           std::to_string(rank) + " on host " + claim.host + " both use the GPU " +
                           claim.gpu +
                           ", and NCCL wants one for each: start no more ranks on a host than it "
                           "has GPUs, and see that CUDA_VISIBLE_DEVICES shows each rank its own "
                           "or all of them");
  }
}

GpuClaim claim_gpu(const NcclLibrary& library, const std::string& host, const Topology& place) {
  GpuClaim claim{.host = host, .gpu = "", .problem = "", .id = ""};
  if (library.module == nullptr) {
    claim.problem = library.detail;
    return claim;
  }
  try {
    NcclModule& module = *library.module;
    claim.gpu = module.device_identity(own_device(module, place.local_rank));
    if (!module.has_nccl()) throw UnsupportedError(module.nccl_detail());
    if (place.rank == 0) claim.id = module.make_id();
  } catch (const Error& error) {
    claim.problem = error.what();
  }
  return claim;
}

std::unique_ptr<Collective> join_nccl(const NcclLibrary& library, std::span<const GpuClaim> claims,
                                      const Topology& place, const Config& config) {
  check_gpu_claims(claims);
  return library.module->make_collective(claims.front().id,
                                         {.rank = place.rank,
                                          .size = place.size,
                                          .device = own_device(*library.module, place.local_rank),
                                          .connect_limit = config.start_timeout,
                                          .operation_limit = config.stall_limit});
}

int device_for(Rank local_rank, int devices) {
  return local_rank % devices;
}

}  // namespace hvd
