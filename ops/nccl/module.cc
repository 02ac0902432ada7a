#include "ops/nccl/module.h"

#include <cuda_runtime_api.h>

#include "core/base/status.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/nccl/check.h"
#include "ops/nccl/nccl_collective.h"

namespace hvd {
namespace {

class Module final : public NcclModule {
 public:
  std::string version() const override {
    int number = 0;  // 22809
    check_nccl(ncclGetVersion(&number), "ncclGetVersion");
    return "NCCL " + std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) +
           "." + std::to_string(number % 100);
  }
  std::string cuda_version() const override {
    int driver = 0;
    check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    return "CUDA " + cuda_version_text(CUDART_VERSION) + ", driver " + cuda_version_text(driver);
  }
  int devices() const override { return find_cuda_devices().count; }
  std::string describe_devices() const override { return find_cuda_devices().detail; }
  std::string make_id() override { return make_nccl_id(); }
  std::unique_ptr<Collective> make_collective(const std::string& id, Rank rank, int size,
                                              int device) override {
    const CudaDevices found = find_cuda_devices();
    if (device < 0 || device >= found.count) {
      throw UnsupportedError("CUDA device " + std::to_string(device) + ": there are " +
                             std::to_string(found.count) + " (" + found.detail + ")");
    }
    auto queue = std::make_shared<LaunchQueue>(device);
    auto communicator = std::make_shared<NcclCommunicator>(id, rank, size, device);
    return std::make_unique<NcclCollective>(std::move(queue), std::move(communicator));
  }
};

}  // namespace
}  // namespace hvd

extern "C" __attribute__((visibility("default"))) hvd::NcclModule* hvd_nccl_module() {
  static hvd::Module module;
  return &module;
}
