#include "test/gpu/cases/rank_job.h"

#include <cuda_runtime_api.h>

#include <deque>
#include <span>
#include <vector>

#include "ops/cuda/check.h"
#include "ops/cuda/device.h"

namespace hvd::engine::test {
namespace {

constexpr int kRounds = 20;
constexpr std::int64_t kNumels[] = {1, 3, 64, 1000, 70001};
constexpr std::int64_t kLarge = 3'000'001;  // more than any backend moves at a time; in round 0

struct Tensor {
  std::string name;
  CollectiveKind kind;
  ReduceOp op;
  std::int64_t numel;
  float expected;  // every element
  Buffer memory;
  bool on_host = false;
  std::vector<float> host;
};

TensorView view(Tensor& tensor, int device) {
  if (tensor.on_host) return {tensor.host.data(), tensor.numel, DType::kF32, {}};
  return {tensor.memory.data, tensor.numel, DType::kF32, {DeviceKind::kCuda, device}};
}

void fill(Tensor& tensor, float value, int device) {
  tensor.host.assign(static_cast<std::size_t>(tensor.numel), value);
  if (tensor.on_host) return;
  const CudaDeviceScope scope(device);
  tensor.memory = allocate_cuda_memory(device, tensor.host.size() * sizeof(float));
  check_cuda(cudaMemcpy(tensor.memory.data, tensor.host.data(), tensor.memory.bytes,
                        cudaMemcpyHostToDevice),
             "cudaMemcpy");
}

Handle submit(Runtime& runtime, Tensor& tensor, int device) {
  const Lease lease = {view(tensor, device), nullptr};
  Submission submission;
  submission.request.name = tensor.name;
  submission.request.kind = tensor.kind;
  submission.request.op = tensor.op;
  submission.request.root = runtime.topology().size - 1;
  submission.request.device = lease.view.device.kind;
  submission.request.shapes = {{tensor.numel}};
  submission.parts.push_back({.input = lease, .output = lease});
  return runtime.submit(std::move(submission));
}

std::string wrong(Tensor& tensor, int device) {
  if (!tensor.on_host) {
    const CudaDeviceScope scope(device);
    check_cuda(cudaMemcpy(tensor.host.data(), tensor.memory.data, tensor.memory.bytes,
                          cudaMemcpyDeviceToHost),
               "cudaMemcpy");
  }
  for (const float value : tensor.host) {
    if (value == tensor.expected) continue;
    return tensor.name + " is " + std::to_string(value) + ", not " +
           std::to_string(tensor.expected) + "\n";
  }
  return "";
}

// Rank r brings r + 1.
void add_tensors(std::deque<Tensor>& tensors, std::span<const std::int64_t> numels, int size,
                 bool on_host) {
  const auto sum = static_cast<float>(size * (size + 1) / 2);
  for (const std::int64_t numel : numels) {
    const std::string name = (on_host ? "host." : "device.") + std::to_string(numel);
    const auto add = [&](const char* what, CollectiveKind kind, ReduceOp op, float expected) {
      tensors.push_back({name + what, kind, op, numel, expected, {}, on_host, {}});
    };
    add(".sum", CollectiveKind::kAllreduce, ReduceOp::kSum, sum);
    add(".average", CollectiveKind::kAllreduce, ReduceOp::kAverage, sum / static_cast<float>(size));
    add(".broadcast", CollectiveKind::kBroadcast, ReduceOp::kSum, static_cast<float>(size));
  }
}

}  // namespace

std::string run_rank_job(Runtime& runtime, int device) {
  const Topology place = runtime.topology();
  std::string problems;
  for (int round = 0; round < kRounds; ++round) {
    std::deque<Tensor> tensors;  // addresses stay
    add_tensors(tensors, kNumels, place.size, false);
    add_tensors(tensors, kNumels, place.size, true);
    if (round == 0) add_tensors(tensors, {&kLarge, 1}, place.size, false);
    for (Tensor& tensor : tensors) fill(tensor, static_cast<float>(place.rank + 1), device);
    std::vector<Handle> handles;
    for (Tensor& tensor : tensors) handles.push_back(submit(runtime, tensor, device));
    for (Handle& handle : handles) handle.wait();
    for (Tensor& tensor : tensors) problems += wrong(tensor, device);
  }
  return problems;
}

}  // namespace hvd::engine::test
