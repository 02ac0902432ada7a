// The gradients of SyncBatchNorm against central differences and against what PyTorch's BatchNorm
// gives for the joined batch (test/support/reference/nn.py), in float64 over uneven batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/sync_batch_norm.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/horovod_cpp/reference_file.h"

namespace hvd {
namespace {

// cos(1.7 i + 0.3), as in the generator: every element counts differently.
Tensor factors_of(const Shape& shape) {
  const Tensor factors = Tensor::empty(shape, DType::kF64);
  for (std::int64_t i = 0; i < factors.numel(); ++i) {
    factors.data<double>()[i] = std::cos(1.7 * static_cast<double>(i) + 0.3);
  }
  return factors;
}

Tensor stored(const std::string& what) {
  return reference_tensor("nn", "batch_norm2d/" + what);
}

// Rank r has the stored batch's rows [cuts[r], cuts[r + 1]).
struct Part {
  Part(const std::vector<std::int64_t>& cuts, const ProcessSet& set)
      : all(set),
        first(cuts[static_cast<std::size_t>(set.rank())]),
        last(cuts[static_cast<std::size_t>(set.rank()) + 1]),
        input(cut(stored("input"))),
        factors(cut(factors_of(stored("output").shape()))),
        layer(3, {.momentum = 0.25}, set) {
    layer.to(DType::kF64);
    Tensor(layer.weight.detach()).copy_(stored("weight"));
    Tensor(layer.bias.detach()).copy_(stored("bias"));
    input.requires_grad_();
  }

  Tensor cut(const Tensor& whole) const { return whole.slice(0, first, last).clone(); }

  // The loss of the joined batch, a collective call.
  double loss() {
    const NoGradGuard no_grad;
    const Tensor mine = sum(layer(input) * factors).reshape({1});
    return allreduce(mine, {.op = ReduceOp::kSum, .name = "loss", .process_set = all}).item();
  }

  ProcessSet all;
  std::int64_t first, last;
  Tensor input, factors;
  SyncBatchNorm layer;
};

void expect_near(const Tensor& given, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(given.shape(), expected.shape()) << what;
  const std::vector<double> a = given.to_vector();
  const std::vector<double> b = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << what << " " << i;
}

// The slope of the joined loss when `moves` this rank's `tensor` at `i`; all ranks call it.
double slope(Part& part, const Tensor& tensor, std::int64_t i, bool moves) {
  constexpr double kStep = 1e-6;
  const auto at = [&](double offset) {
    double* element = tensor.data<double>() + i;
    const double before = moves ? *element : 0;
    if (moves) *element = before + offset;
    const double loss = part.loss();
    if (moves) *element = before;
    return loss;
  };
  const double above = at(kStep);
  return (above - at(-kStep)) / (2 * kStep);
}

void check_differences(const std::vector<std::int64_t>& cuts) {
  const auto ranks = static_cast<int>(cuts.size()) - 1;
  run_sets(ranks, [&](const ProcessSet& all) {
    Part part(cuts, all);
    sum(part.layer(part.input) * part.factors).backward();
    const std::vector<double> gradient = part.input.grad().to_vector();
    for (int owner = 0; owner < ranks; ++owner) {
      const auto at = static_cast<std::size_t>(owner);
      const std::int64_t count = (cuts[at + 1] - cuts[at]) * part.input.numel() /
                                 std::max<std::int64_t>(part.last - part.first, 1);
      for (std::int64_t i = 0; i < count; ++i) {
        const bool mine = owner == all.rank();
        const double expected = slope(part, part.input, i, mine);
        if (!mine) continue;
        EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], expected, 1e-6) << i;
      }
    }
    average_gradients(part.layer, {.op = ReduceOp::kSum, .process_set = all});
    for (const Tensor& parameter : part.layer.parameters()) {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        const double expected = slope(part, parameter, i, true);
        EXPECT_NEAR(parameter.grad().data<double>()[i], expected, 1e-6) << i;
      }
    }
  });
}

TEST(SyncBatchNormGradients, MatchDifferencesOverTwoRanks) {
  check_differences({0, 1, 5});
}

TEST(SyncBatchNormGradients, MatchDifferencesOverThreeRanks) {
  check_differences({0, 2, 3, 5});
}

TEST(SyncBatchNormGradients, ArePyTorchsOfTheJoinedBatch) {
  for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 4, 5}, {0, 1, 3, 5}}) {
    run_sets(static_cast<int>(cuts.size()) - 1, [&](const ProcessSet& all) {
      Part part(cuts, all);
      const Tensor output = part.layer(part.input);
      sum(output * part.factors).backward();
      expect_near(output, part.cut(stored("output")), "output");
      expect_near(part.input.grad(), part.cut(stored("grad_input")), "grad_input");
      expect_near(part.layer.running_mean, stored("running_mean"), "running_mean");
      expect_near(part.layer.running_var, stored("running_var"), "running_var");
      average_gradients(part.layer, {.op = ReduceOp::kSum, .process_set = all});
      expect_near(part.layer.weight.grad(), stored("grad_weight"), "grad_weight");
      expect_near(part.layer.bias.grad(), stored("grad_bias"), "grad_bias");
    });
  }
}

}  // namespace
}  // namespace hvd
