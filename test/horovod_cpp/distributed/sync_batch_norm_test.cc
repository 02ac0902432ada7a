// SyncBatchNorm over ranks against BatchNorm over the joined batch.
#include "horovod_cpp/distributed/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using nn::BatchNorm;
using nn::BatchNormOptions;

// What one training step of a layer on some rows gives.
struct Result {
  Tensor output, grad_input, grad_weight, grad_bias, mean, var;
  double batches = 0;
};

Tensor input_of(const Shape& shape, DType dtype) {
  manual_seed(5);
  Tensor input = randn(shape, dtype);
  return input.mul_(3).add_(Tensor::scalar(2, dtype));
}

// The loss weighs every element differently, so that gradients flow through the statistics.
Tensor weights_of(const Shape& shape, DType dtype) {
  manual_seed(6);
  return randn(shape, dtype);
}

void randomise(BatchNorm& layer, DType dtype) {
  layer.to(dtype);
  manual_seed(7);
  if (!layer.weight.defined()) return;
  Tensor(layer.weight.detach()).copy_(randn(layer.weight.shape(), dtype));
  Tensor(layer.bias.detach()).copy_(randn(layer.bias.shape(), dtype));
}

Result step(BatchNorm& layer, const Shape& shape, DType dtype, std::int64_t first,
            std::int64_t last) {
  Tensor input = input_of(shape, dtype).slice(0, first, last).contiguous().detach();
  input.requires_grad_();
  const Tensor output = layer(input);
  sum(output * weights_of(shape, dtype).slice(0, first, last)).backward();
  Result result{output.detach(), input.grad(), {}, {}, {}, {}, 0};
  if (layer.weight.defined()) {
    result.grad_weight = layer.weight.grad();
    result.grad_bias = layer.bias.grad();
  }
  if (layer.running_mean.defined()) {
    result.mean = layer.running_mean;
    result.var = layer.running_var;
    result.batches = layer.num_batches_tracked.item();
  }
  return result;
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const char* what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto a = got.to_vector();
  const auto b = want.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance) << what << " element " << i;
  }
}

// Rows [cuts[r], cuts[r + 1]) are those of rank r.
void expect_equal_to_joined(const Shape& shape, const std::vector<std::int64_t>& cuts, DType dtype,
                            double tolerance, const BatchNormOptions& options = {}) {
  struct Any : BatchNorm {
    Any(std::int64_t channels, const BatchNormOptions& options)
        : BatchNorm("BatchNorm", channels, options) {}
  };
  Any alone(shape[1], options);
  randomise(alone, dtype);
  const Result joined = step(alone, shape, dtype, 0, shape[0]);
  run_sets(static_cast<int>(cuts.size()) - 1, [&](const ProcessSet& all) {
    const auto rank = static_cast<std::size_t>(all.rank());
    SyncBatchNorm layer(shape[1], options, all);
    randomise(layer, dtype);
    const std::int64_t first = cuts[rank], last = cuts[rank + 1];
    const Result mine = step(layer, shape, dtype, first, last);
    expect_near(mine.output, joined.output.slice(0, first, last), tolerance, "output");
    expect_near(mine.grad_input, joined.grad_input.slice(0, first, last), tolerance, "grad_input");
    if (options.track_running_stats) {
      expect_near(mine.mean, joined.mean, tolerance, "running_mean");
      expect_near(mine.var, joined.var, tolerance, "running_var");
      EXPECT_EQ(mine.batches, 1);
    }
    if (!options.affine) return;
    average_gradients(layer, {.op = ReduceOp::kSum, .process_set = all});
    expect_near(layer.weight.grad(), joined.grad_weight, 10 * tolerance, "grad_weight");
    expect_near(layer.bias.grad(), joined.grad_bias, 10 * tolerance, "grad_bias");
  });
}

TEST(SyncBatchNorm, OfTwoRanksIsBatchNormOfTheJoinedBatch) {
  expect_equal_to_joined({8, 3, 4, 5}, {0, 4, 8}, DType::kF64, 1e-12);
  expect_equal_to_joined({8, 3, 4, 5}, {0, 4, 8}, DType::kF32, 2e-5);
}

TEST(SyncBatchNorm, WeighsEveryExampleAlikeHoweverUnevenlyTheyLieOnFourRanks) {
  expect_equal_to_joined({9, 3, 2, 2}, {0, 1, 6, 8, 9}, DType::kF64, 1e-12);
  expect_equal_to_joined({9, 3, 2, 2}, {0, 1, 6, 8, 9}, DType::kF32, 2e-5);
}

TEST(SyncBatchNorm, LearnsFromTheOthersWhereARankHasNoExamples) {
  expect_equal_to_joined({5, 2, 3, 1}, {0, 2, 2, 5}, DType::kF64, 1e-12);
}

TEST(SyncBatchNorm, TakesFeaturesAndSequencesToo) {
  expect_equal_to_joined({7, 4}, {0, 3, 7}, DType::kF64, 1e-12);
  expect_equal_to_joined({7, 4, 3}, {0, 3, 7}, DType::kF64, 1e-12);
}

TEST(SyncBatchNorm, KeepsTheOptionsOfBatchNorm) {
  expect_equal_to_joined({6, 2, 2, 2}, {0, 3, 6}, DType::kF64, 1e-12,
                         {.eps = 0.1, .momentum = std::nullopt, .affine = false});
  expect_equal_to_joined({6, 2, 2, 2}, {0, 3, 6}, DType::kF64, 1e-12,
                         {.momentum = 0.5, .track_running_stats = false});
}

TEST(SyncBatchNorm, EvaluatesWithRunningStatisticsAndWithoutTheOthers) {
  run_sets(2, [](const ProcessSet& all) {
    SyncBatchNorm layer(2, {}, all);
    layer.eval();
    if (all.rank() == 1) return;  // would stall the other one if it communicated
    layer.running_mean.fill_(3);
    const Tensor output = layer(Tensor::full({1, 2, 1, 1}, 3));
    EXPECT_THAT(output.to_vector(), testing::Each(0));
  });
}

TEST(SyncBatchNorm, RefusesOnAllRanksOneValueAChannelInTheJoinedBatch) {
  run_sets(2, [](const ProcessSet& all) {
    SyncBatchNorm layer(2, {}, all);
    const std::int64_t rows = all.rank() == 0 ? 1 : 0;
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  layer(Tensor::ones({rows, 2, 1, 1}));
                }),
                testing::HasSubstr("fewer than two values per channel"));
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  layer(Tensor::ones({2, 3}));
                }),
                testing::HasSubstr("[2, 3]"));
  });
}

TEST(SyncBatchNorm, RefusesRunningStatisticsThatRequireGrad) {
  run_sets(2, [](const ProcessSet& all) {
    SyncBatchNorm layer(2, {}, all);
    layer.running_var.requires_grad_();
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  layer(Tensor::ones({4, 2}));
                }),
                testing::HasSubstr("not differentiable with respect to running_var"));
  });
}

TEST(SyncBatchNorm, ConvertsEveryBatchNormOfAModelInItsPlace) {
  run_sets(2, [](const ProcessSet& all) {
    auto inner = std::make_shared<nn::Sequential>(nn::Linear(2, 2), nn::BatchNorm1d(2));
    nn::Sequential model(nn::BatchNorm1d(2), inner);
    const auto before = model.state_dict();
    EXPECT_EQ(&SyncBatchNorm::convert_sync_batchnorm(model, all), &model);
    const auto after = model.state_dict();
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].first, before[i].first);
      EXPECT_TRUE(after[i].second.is(before[i].second));
    }
    manual_seed(static_cast<std::uint64_t>(all.rank()));
    model(randn({4, 2}));
    for (const auto& [name, buffer] : model.named_buffers()) {
      const Tensor other = broadcast(buffer, 0, {.name = name, .process_set = all});
      EXPECT_TRUE(bitwise_equal(buffer, other)) << name;
    }
  });
}

// Layers are told apart by their place in the model, whatever each rank made before.
TEST(SyncBatchNorm, MeetsTheSameLayerOfTheOtherRankWhateverWasMadeBefore) {
  run_sets(2, [](const ProcessSet& all) {
    if (all.rank() == 1) SyncBatchNorm unused(3, {}, all);
    nn::Sequential model(SyncBatchNorm(2, {}, all), SyncBatchNorm(2, {}, all));
    Tensor input = input_of({4, 2}, DType::kF32).requires_grad_();
    sum(model(input)).backward();
    EXPECT_TRUE(input.grad().defined());
  });
}

}  // namespace
}  // namespace hvd
