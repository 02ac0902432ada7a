// How fast a core sums and scales on host memory (ops/host/reduce.h). Bytes are those of all inputs
// and of the output; 1 MiB a tensor stays in the L2 cache of most machines, 64 MiB in none.
//
//   build/cpu/test/bench/reduce_bench

#include "ops/host/reduce.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace hvd::engine {
namespace {

void sum(benchmark::State& state, DType dtype) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const double scale = state.range(2) == 0 ? 1.0 : 1.0 / static_cast<double>(ranks);
  const std::vector<std::vector<std::byte>> arrays(ranks, std::vector<std::byte>(bytes));
  std::vector<std::byte> out(bytes);
  std::vector<const void*> inputs;
  for (const auto& array : arrays) inputs.push_back(array.data());
  const auto numel = static_cast<std::int64_t>(bytes / size_of(dtype));
  for (auto _ : state) {
    host::reduce(dtype, ReduceOp::kSum, inputs, out.data(), numel, 1.0, scale);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((ranks + 1) * bytes));
}

void arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes", "scaled"});
  for (const std::int64_t bytes : {1 << 20, 64 << 20}) {
    for (const std::int64_t ranks : {2, 4}) {
      for (const std::int64_t scaled : {0, 1}) bench->Args({ranks, bytes, scaled});
    }
  }
}

BENCHMARK_CAPTURE(sum, f32, DType::kF32)->Apply(arguments);
BENCHMARK_CAPTURE(sum, f16, DType::kF16)->Apply(arguments);
BENCHMARK_CAPTURE(sum, bf16, DType::kBF16)->Apply(arguments);

}  // namespace
}  // namespace hvd::engine
