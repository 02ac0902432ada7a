// Which fusion threshold is best on this machine? Reduces the gradient set of a ResNet-50 (161
// tensors, 25.6 million floats) and one of 1,000 small tensors at several thresholds, in turn, and
// prints medians.
//
//   mpirun -np 2 build/cpu/test/bench/fusion_bench [repetitions]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "horovod_cpp/horovod.h"
#include "test/bench/gradient_sets.h"

namespace {

using hvd::Clock;
using hvd::Tensor;

struct NamedSet {
  const char* name;
  std::vector<Tensor> tensors;
};

std::vector<Tensor> zeros(const hvd::bench::GradientSet& sizes) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : sizes) tensors.push_back(Tensor::zeros({size}));
  return tensors;
}

double milliseconds_of_one_step(std::vector<Tensor>& tensors) {
  hvd::Tensor start = Tensor::zeros({1});
  hvd::allreduce_(start, {.op = hvd::ReduceOp::kSum, .name = "start"});  // all ranks begin together
  const auto begin = Clock::now();
  std::vector<hvd::CollectiveHandle> handles;
  handles.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    handles.push_back(hvd::allreduce_async_(tensors[i], {.name = "g" + std::to_string(i)}));
  }
  for (const auto& handle : handles) handle.synchronize();
  return 1e3 * hvd::to_seconds(Clock::now() - begin);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 7;
  const std::vector<std::size_t> thresholds_kib = {0, 256, 1024, 4096, 16384, 65536};
  std::vector<NamedSet> sets = {
      {"ResNet-50, 161 tensors, 102 MB", zeros(hvd::bench::resnet50())},
      {"1,000 tensors of 1,024 floats", zeros(hvd::bench::thousand_small())}};
  for (NamedSet& set : sets) {
    std::vector<std::vector<double>> times(thresholds_kib.size());
    for (int round = 0; round < repetitions; ++round) {
      for (std::size_t t = 0; t < thresholds_kib.size(); ++t) {
        ::setenv("HOROVOD_FUSION_THRESHOLD", std::to_string(thresholds_kib[t] << 10).c_str(), 1);
        hvd::init();
        for (int warm_up = 0; warm_up < 2; ++warm_up) milliseconds_of_one_step(set.tensors);
        for (int i = 0; i < 3; ++i) times[t].push_back(milliseconds_of_one_step(set.tensors));
        if (hvd::rank() == 0 && round == 0 && t == 0) {
          std::printf("%s, %d ranks, ms a step (median of %d)\n", set.name, hvd::size(),
                      3 * repetitions);
        }
        const bool first = hvd::rank() == 0;
        hvd::shutdown();
        if (first && round + 1 == repetitions) {
          std::printf("  threshold %6zu KiB  %8.2f\n", thresholds_kib[t], median(times[t]));
        }
      }
    }
  }
  return 0;
}
