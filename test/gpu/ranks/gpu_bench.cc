// What the kernels that pack and unpack reach of the bandwidth of a copy on the device, and how
// long a blocking all-reduce of one rank takes. Prints one JSON object a line; times are medians.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <vector>

#include "core/base/clock.h"
#include "ops/connect/backends.h"
#include "ops/connect/libraries.h"
#include "ops/cuda/check.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/device.h"
#include "ops/cuda/stream.h"
#include "test/bench/gradient_sets.h"
#include "test/support/collective_contract.h"

namespace hvd::engine {
namespace {

constexpr int kRepetitions = 50;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of what `enqueue` puts on the stream, on the device's own clock.
double device_seconds(const CudaStream& stream, const std::function<void()>& enqueue) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    check_cuda(cudaEventRecord(begin, stream.get()), "cudaEventRecord");
    enqueue();
    check_cuda(cudaEventRecord(end, stream.get()), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    seconds.push_back(milliseconds / 1e3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return median(std::move(seconds));
}

void bench_packing() {
  const CudaStream stream(0);
  const bench::GradientSet numels = bench::resnet50();
  const auto bytes = static_cast<std::size_t>(bench::numel(numels)) * sizeof(float);
  const Buffer packed = allocate_cuda_memory(0, bytes + numels.size() * 64);
  const Buffer other = allocate_cuda_memory(0, packed.bytes);
  std::vector<Buffer> tensors;
  std::vector<CopyPiece> in;
  std::vector<CopyPiece> out;
  auto* place = static_cast<std::byte*>(packed.data);
  for (const std::int64_t numel : numels) {
    tensors.push_back(allocate_cuda_memory(0, static_cast<std::size_t>(numel) * sizeof(float)));
    in.push_back({tensors.back().data, place, numel});
    out.push_back({place, tensors.back().data, numel});
    place += (tensors.back().bytes + 63) / 64 * 64;
  }
  const double copy = device_seconds(stream, [&] {
    check_cuda(
        cudaMemcpyAsync(other.data, packed.data, bytes, cudaMemcpyDeviceToDevice, stream.get()),
        "cudaMemcpyAsync");
  });
  const auto report = [&](const char* name, const std::vector<CopyPiece>& pieces, CopyRule rule) {
    const double seconds =
        device_seconds(stream, [&] { copy_pieces(0, stream.get(), rule, pieces); });
    std::printf(
        "{\"name\": \"%s\", \"tensors\": %zu, \"bytes\": %zu, \"us\": %.1f, \"gb_per_s\": %.1f, "
        "\"of_a_device_copy\": %.3f}\n",
        name, pieces.size(), bytes, seconds * 1e6, 2e-9 * static_cast<double>(bytes) / seconds,
        copy / seconds);
  };
  std::printf("{\"name\": \"device copy\", \"bytes\": %zu, \"us\": %.1f, \"gb_per_s\": %.1f}\n",
              bytes, copy * 1e6, 2e-9 * static_cast<double>(bytes) / copy);
  report("pack resnet50", in, {});
  report("unpack resnet50", out, {});
  report("pack resnet50 scaled", in, {DType::kF32, DType::kF32, 0.5});
}

void bench_latency() {
  backends();  // opens the module
  NcclModule* module = nccl_library().module;
  if (module == nullptr || !module->has_nccl()) {
    std::printf("{\"name\": \"allreduce\", \"skipped\": \"no NCCL\"}\n");
    return;
  }
  const auto collective = module->make_collective(module->make_id(), {});
  for (const std::int64_t numel : {1, 1024, 262144, 25557032}) {
    const Buffer memory = collective->allocate(static_cast<std::size_t>(numel) * sizeof(float));
    const TensorView view = {memory.data, numel, DType::kF32, {DeviceKind::kCuda, 0}};
    const Slice slice = {view, view};
    std::vector<double> seconds;
    for (int i = 0; i < kRepetitions; ++i) {
      const TimePoint begin = Clock::now();
      test::finish(*collective->all_reduce({&slice, 1}, {}), *collective);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    std::printf("{\"name\": \"allreduce, NCCL, 1 rank, blocking\", \"bytes\": %zu, \"us\": %.1f}\n",
                memory.bytes, median(std::move(seconds)) * 1e6);
  }
}

}  // namespace
}  // namespace hvd::engine

int main() {
  try {
    hvd::engine::bench_packing();
    hvd::engine::bench_latency();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
}
