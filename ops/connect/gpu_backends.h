#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "core/config/config.h"
#include "core/ports/collective.h"
#include "ops/connect/backends.h"
#include "ops/connect/gpu_assignments.h"
#include "ops/connect/libraries.h"

namespace hvd::engine {

// The rows of what moves tensors of GPUs: cuda, nccl, ipc.
std::vector<BackendInfo> gpu_backends(const NcclLibrary& library);

// Where a rank stands when it looks for a GPU.
struct GpuTopology {
  std::string host;  // its name
  Topology place;
  int hosts = 1;  // of the job
};

// How tensors of GPUs move, one of the values of HVD_GPU_OPERATIONS but auto, and why.
struct GpuChoice {
  std::string operations;
  std::string why;
};

// What becomes of `wanted` where these are the GPUs of all ranks, in rank order, on `hosts`
// machines; the same on every rank. Throws as check_gpu_claims() unless `wanted` is auto.
GpuChoice choose_gpu_operations(std::span<const GpuAssignment> claims, const std::string& wanted,
                                int hosts);

// Passes each rank's text to all.
using GpuAllGather = std::function<std::vector<std::string>(const std::string&)>;

// The collective of GPUs that config.gpu_operations, which is not none, asks for; empty if that is
// auto and a rank has no GPU. `world` is the collective of host memory, of which subsets serve.
// Collective. Throws as check_gpu_claims(), and UnsupportedError, with the same text on every rank,
// if one cannot make its collective.
std::unique_ptr<Collective> connect_gpus(const NcclLibrary& library, const GpuTopology& here,
                                         const Config& config, const GpuAllGather& all_gather,
                                         Collective& world);

}  // namespace hvd::engine
