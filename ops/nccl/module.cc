#include "ops/nccl/module.h"

#include <cuda_runtime_api.h>

#include "core/base/status.h"
#include "core/config/build_identity.h"
#include "ops/cuda/caller_streams.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/staged_collective.h"
#include "ops/cuda_ipc/ipc_collective.h"
#include "ops/nccl/api.h"
#include "ops/nccl/nccl_collective.h"

namespace hvd::engine {
namespace {

const NcclApi& usable_nccl() {
  const NcclFile& file = nccl_file();
  if (file.api == nullptr) throw UnsupportedError("NCCL cannot be used: " + file.detail);
  return *file.api;
}

void expect_device(int device) {
  const CudaDevices found = find_cuda_devices();
  if (device >= 0 && device < found.count) return;
  throw UnsupportedError("CUDA device " + std::to_string(device) + ": there are " +
                         std::to_string(found.count) + " (" + found.detail + ")");
}

class Module final : public NcclModule {
 public:
  bool has_nccl() const override { return nccl_file().api != nullptr; }
  std::string nccl_detail() const override { return nccl_file().detail; }
  std::string cuda_version() const override {
    int driver = 0;
    check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    return "CUDA " + cuda_version_text(CUDART_VERSION) + ", driver " + cuda_version_text(driver);
  }
  int devices() const override { return find_cuda_devices().count; }
  std::string describe_devices() const override { return find_cuda_devices().detail; }
  std::string device_identity(int device) const override {
    expect_device(device);
    return cuda_device_identity(device);
  }
  std::string make_id() override { return make_nccl_id(usable_nccl()); }
  std::unique_ptr<Collective> make_collective(const std::string& id,
                                              const NcclPlace& place) override {
    expect_device(place.device);
    auto queue = std::make_shared<LaunchQueue>(place.device, place.operation_limit);
    auto communicator = std::make_shared<NcclCommunicator>(
        usable_nccl(), id,
        NcclCommunicator::Place{place.rank, place.size, place.device, place.connect_limit});
    return std::make_unique<NcclCollective>(std::move(queue), std::move(communicator));
  }
  std::unique_ptr<Collective> make_staged_collective(std::unique_ptr<Collective> host,
                                                     const NcclPlace& place) override {
    expect_device(place.device);
    return std::make_unique<StagedCollective>(place.device, std::move(host), place.rank,
                                              place.size);
  }
  std::unique_ptr<Collective> make_ipc_collective(std::unique_ptr<Collective> host,
                                                  std::unique_ptr<Collective> handshakes,
                                                  const NcclPlace& place) override {
    expect_device(place.device);
    return std::make_unique<IpcCollective>(
        std::make_unique<StagedCollective>(place.device, std::move(host), place.rank, place.size),
        std::move(handshakes), place.rank, place.size,
        IpcCollective::Options{.limit = place.operation_limit});
  }
  DeviceMemory& memory() override { return cuda_memory(); }
  CudaStreams& streams() override { return streams_; }

 private:
  CallerStreams streams_;
};

}  // namespace
}  // namespace hvd::engine

extern "C" __attribute__((visibility("default"))) hvd::engine::NcclModule* hvd_nccl_module() {
  static auto* module = new hvd::engine::Module;  // never destroyed: CUDA may be gone by then
  return module;
}

extern "C" __attribute__((visibility("default"))) const char* hvd_nccl_build() {
  return hvd::build_identity();
}
