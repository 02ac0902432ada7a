// How long an optimizer's update of 25 M floats takes, and how long a loop needs that hardly does
// more than read and write as many arrays: the memory-bandwidth floor. HVD_ISA chooses the
// instruction set.
//
//   build/cpu/test/bench/optim_bench

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <vector>

#include "horovod_cpp/optim/optimizers.h"

namespace hvd {
namespace {

constexpr std::int64_t kNumel = 25'000'000;

Tensor parameter() {
  Tensor param = Tensor::full({kNumel}, 0.5).requires_grad_();
  param.set_grad(Tensor::full({kNumel}, 0.25));
  return param;
}

// `arrays` float arrays of which all but one, the gradient, are written.
void count_bytes(benchmark::State& state, std::int64_t arrays) {
  state.SetBytesProcessed(state.iterations() * kNumel * 4 * (2 * arrays - 1));
}

template <typename Optimizer>
void step(benchmark::State& state, std::int64_t arrays,
          const std::function<std::unique_ptr<Optimizer>(const Tensor&)>& make) {
  const auto optimizer = make(parameter());
  optimizer->step();  // makes its state
  for (auto _ : state) optimizer->step();
  count_bytes(state, arrays);
}

// Memory as the optimizers have it: a tensor's, in huge pages.
float* values(const Tensor& tensor) {
  return tensor.data<float>();
}

void floor_of_three(benchmark::State& state) {
  const Tensor all[] = {Tensor::full({kNumel}, 0.5), Tensor::full({kNumel}, 0.5),
                        Tensor::full({kNumel}, 0.25)};
  float* __restrict a = values(all[0]);
  float* __restrict b = values(all[1]);
  const float* __restrict grad = values(all[2]);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < kNumel; ++i) {
      a[i] += grad[i];
      b[i] += grad[i];
    }
    benchmark::ClobberMemory();
  }
  count_bytes(state, 3);
}

void floor_of_four(benchmark::State& state) {
  const Tensor all[] = {Tensor::full({kNumel}, 0.5), Tensor::full({kNumel}, 0.5),
                        Tensor::full({kNumel}, 0.5), Tensor::full({kNumel}, 0.25)};
  float* __restrict a = values(all[0]);
  float* __restrict b = values(all[1]);
  float* __restrict c = values(all[2]);
  const float* __restrict grad = values(all[3]);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < kNumel; ++i) {
      a[i] += grad[i];
      b[i] += grad[i];
      c[i] += grad[i];
    }
    benchmark::ClobberMemory();
  }
  count_bytes(state, 4);
}

template <typename Optimizer, typename Options>
void add(const char* name, std::int64_t arrays, const Options& options) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
    step<Optimizer>(state, arrays, [&](const Tensor& param) {
      return std::make_unique<Optimizer>(std::vector<Tensor>{param}, options);
    });
  })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  using namespace hvd;
  using namespace hvd::optim;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const auto floor = [](const char* name, void (*function)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, function)->Unit(benchmark::kMillisecond);
  };
  floor("floor of sgd_momentum", floor_of_three);
  add<SGD>("sgd_momentum", 3, SGDOptions{.momentum = 0.9, .weight_decay = 1e-4});
  floor("floor of adam", floor_of_four);
  add<Adam>("adam", 4, AdamOptions{.weight_decay = 1e-4});
  add<AdamW>("adamw", 4, AdamWOptions{});
  add<RMSprop>("rmsprop", 3, RMSpropOptions{});
  add<Adagrad>("adagrad", 3, AdagradOptions{});
  add<Adadelta>("adadelta", 4, AdadeltaOptions{});
  add<LAMB>("lamb", 4, LAMBOptions{.weight_decay = 0.01});
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
