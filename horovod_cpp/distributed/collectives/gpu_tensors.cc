#include "horovod_cpp/distributed/collectives/gpu_tensors.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "ops/connect/backends.h"

namespace hvd {
namespace {

std::string text_of(const Device& device) {
  return "CUDA device " + std::to_string(device.index);
}

}  // namespace

void expect_served(const World& world, const Device& device, const std::string& what) {
  if (device.kind == DeviceKind::kCpu) return;
  const auto& gpu = world.options().gpu;
  if (!gpu) {
    throw UnsupportedError(
        what + " lies on " + text_of(device) +
        ", and this job has no collectives of GPUs: set HVD_GPU_OPERATIONS=auto (or nccl, ipc, "
        "host) on all ranks before init(), or copy it to the CPU, as x.cpu() does in PyTorch. "
        "hvdrun --check-build tells what this build has");
  }
  if (gpu->device == device.index) return;
  throw UnsupportedError(what + " lies on " + text_of(device) + ", but rank " +
                         std::to_string(world.topology().rank) + " communicates on " +
                         text_of({DeviceKind::kCuda, gpu->device}) +
                         ", that of its local rank: move it there (PyTorch: call "
                         "torch.cuda.set_device(hvd.local_rank()) first)");
}

std::uintptr_t import_stream(const World& world) {
  const engine::RankGpu& gpu = *world.options().gpu;
  return gpu.module->streams().own(gpu.device);
}

void take_back(const Tensor& tensor, std::uintptr_t stream) noexcept {
  try {
    engine::CudaStreams& streams = engine::nccl_library().module->streams();
    if (stream != tensor.stream()) {
      streams.take_back(tensor.device().index, tensor.stream(), stream);
    }
  } catch (const Error&) {
    // CUDA is gone, and the work with it: the process ends.
  }
}

void hand_over(const Tensor& tensor, std::uintptr_t stream) {
  if (stream == tensor.stream()) return;
  engine::CudaStreams& streams =
      engine::nccl_library().module->streams();  // it is there: the tensor is
  const int device = tensor.device().index;
  streams.wait(device, stream, streams.record(device, tensor.stream()));
}

void Readers::add(const Device& device, std::uintptr_t stream) {
  if (past_.state() == nullptr || device.kind == DeviceKind::kCpu) return;
  engine::CudaStreams& streams = engine::nccl_library().module->streams();
  if (reader_ && stream != streams.own(device.index)) stream = *reader_;
  if (std::find(streams_.begin(), streams_.end(), stream) != streams_.end()) return;
  streams_.push_back(stream);
  try {
    if (past_.reached()) {
      past_.wait();
    } else {
      streams.wait(device.index, stream, past_);
    }
  } catch (const Error&) {
    handle_.wait();  // its error says more: why the work was broken off
    throw;
  }
}

void ReadyPoint::add(const Tensor& tensor) {
  if (!tensor.defined() || tensor.device().kind == DeviceKind::kCpu) return;
  const std::uintptr_t stream = tensor.stream();
  if (std::find(streams_.begin(), streams_.end(), stream) != streams_.end()) return;
  streams_.push_back(stream);
}

engine::Fence ReadyPoint::fence() const {
  if (streams_.empty()) return {};
  const engine::RankGpu& gpu = *world_.options().gpu;
  engine::CudaStreams& streams = gpu.module->streams();
  if (streams_.size() == 1) return streams.record(gpu.device, streams_.front());
  const std::uintptr_t own = streams.own(gpu.device);
  for (const std::uintptr_t stream : streams_) {
    if (stream != own) streams.wait(gpu.device, own, streams.record(gpu.device, stream));
  }
  return streams.record(gpu.device, own);
}

}  // namespace hvd
