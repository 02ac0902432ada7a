// Gradients of rows over ranks: sparse_allreduce, and who reduces those of an Embedding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/distributed_data_parallel.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RowGradient rows_of(const std::vector<std::int64_t>& rows, const std::vector<double>& values) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return {Tensor::from(rows, {count}), Tensor::from(values, {count, 2})};
}

TEST(SparseAllreduce, AddsUpTheRowsOfAllRanksAndGivesEachOnce) {
  run_sets(3, [](const ProcessSet& all) {
    const std::vector<RowGradient> mine = {rows_of({4, 1, 4}, {1, 2, 3, 4, 5, 6}), rows_of({}, {}),
                                           rows_of({1, 0}, {10, 20, 30, 40})};
    const RowGradient& given = mine[static_cast<std::size_t>(all.rank())];
    const RowGradient sum =
        sparse_allreduce(given, {.op = ReduceOp::kSum, .name = "sum", .process_set = all});
    EXPECT_THAT(sum.rows.to_vector(), ElementsAre(0, 1, 4));
    EXPECT_THAT(sum.values.to_vector(), ElementsAre(30, 40, 13, 24, 6, 8));
    const RowGradient average = sparse_allreduce(given, {.prescale_factor = 3, .process_set = all});
    EXPECT_THAT(average.values.to_vector(), ElementsAre(30, 40, 13, 24, 6, 8));
  });
}

TEST(SparseAllreduce, DividesByTheRanksThatHaveNotJoined) {
  run_sets(3, [](const ProcessSet& all) {
    if (all.rank() < 2) {
      const RowGradient given =
          all.rank() == 0 ? rows_of({2}, {4, 8}) : rows_of({2, 3}, {2, 2, 6, 6});
      const RowGradient average = sparse_allreduce(given, {.name = "x", .process_set = all});
      EXPECT_THAT(average.rows.to_vector(), ElementsAre(2, 3));
      EXPECT_THAT(average.values.to_vector(), ElementsAre(3, 5, 3, 3));
    }
    join({.process_set = all});
  });
}

TEST(SparseAllreduce, ReducesEveryFloatingDtype) {
  run_sets(2, [](const ProcessSet& all) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const RowGradient mine = rows_of({all.rank() + (std::int64_t{1} << 40), 3}, {1, 2, 4, 8});
      const RowGradient sum =
          sparse_allreduce({mine.rows, mine.values.to(dtype)},
                           {.op = ReduceOp::kSum, .name = "x", .process_set = all});
      EXPECT_THAT(sum.rows.to_vector(), ElementsAre(3, 0x1p40, 0x1p40 + 1));
      EXPECT_EQ(sum.values.dtype(), dtype);
      EXPECT_THAT(sum.values.to_vector(), ElementsAre(8, 16, 1, 2, 1, 2));
    }
  });
}

TEST(SparseAllreduce, ADenseTensorOfTheSameNameOnAnotherRankIsAMismatchOnBoth) {
  run_sets(2, [](const ProcessSet& all) {
    for (const char* name : {"table", "/table"}) {
      const std::string text = message_of<MismatchError>([&] {
        if (all.rank() == 0) allreduce(Tensor::ones({4, 2}), {.name = name, .process_set = all});
        if (all.rank() == 1) {
          sparse_allreduce(rows_of({1}, {2, 3}), {.name = name, .process_set = all});
        }
      });
      EXPECT_THAT(text, AllOf(HasSubstr("table"), HasSubstr("allreduce on rank 0"),
                              HasSubstr("allgather on rank 1")));
    }
    const RowGradient after =
        sparse_allreduce(rows_of({1}, {2, 4}), {.name = "table", .process_set = all});
    EXPECT_THAT(after.values.to_vector(), ElementsAre(2, 4));
  });
}

TEST(SparseAllreduce, RefusesWhatIsNoGradientOfRows) {
  run_sets(1, [](const ProcessSet& all) {
    EXPECT_THAT(
        message_of<InvalidArgumentError>([&] {
          sparse_allreduce(rows_of({1}, {2, 3}), {.op = ReduceOp::kMax, .process_set = all});
        }),
        HasSubstr("not Max"));
    const Tensor two = Tensor::zeros({2}, DType::kI64);
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  sparse_allreduce({two, Tensor::ones({3, 2})}, {.process_set = all});
                }),
                HasSubstr("rows int64 [2] and values float32 [3, 2]"));
  });
}

// A table of 6 rows and a layer behind it, equal on all ranks.
struct Net : nn::Module {
  explicit Net(bool sparse) {
    manual_seed(3);
    table = register_module("table", std::make_shared<nn::Embedding>(6, 2, std::nullopt, sparse));
    head = register_module("head", std::make_shared<nn::Linear>(2, 2));
  }
  Tensor forward(const Tensor& rows) override { return (*head)((*table)(rows)); }

  std::shared_ptr<nn::Embedding> table;
  std::shared_ptr<nn::Linear> head;
};

// Differs by rank and step; rank 1 reads no row in step 1.
Tensor loss_of(Net& net, nn::Module& called, int rank, std::int64_t step) {
  if (rank == 1 && step == 1) return sum((*net.head)(Tensor::ones({1, 2})));
  const std::int64_t row = (rank + step) % 6;
  const std::vector<std::int64_t> rows = {row, 5 - step, row};
  return sum(square(called(Tensor::from(rows, {3}))));
}

std::vector<double> weights_of(const nn::Module& module) {
  std::vector<double> all;
  for (const Tensor& parameter : module.parameters()) {
    for (const double value : parameter.to_vector()) all.push_back(value);
  }
  return all;
}

using MakeOptimizer =
    std::function<std::shared_ptr<optim::Optimizer>(const std::vector<Tensor>& params)>;

std::shared_ptr<optim::Optimizer> make_sgd(const std::vector<Tensor>& params) {
  return std::make_shared<optim::SGD>(params, optim::SGDOptions{.lr = 0.125});
}

// What three steps on two ranks make of the weights; whether the table's gradient was one of rows.
struct Trained {
  std::vector<double> weights;
  bool by_rows = false;
};

Trained train(bool sparse, const DistributedOptions& given, const MakeOptimizer& make = make_sgd) {
  std::vector<Trained> of_rank(2);
  run_sets(2, [&](const ProcessSet& all) {
    Net net(sparse);
    DistributedOptions options = given;
    options.process_set = all;
    if (options.num_groups < 0) {  // "one group of everything"
      options.num_groups = 0;
      options.groups = {net.parameters()};
    }
    DistributedOptimizer optimizer(make(net.parameters()), net.named_parameters(), options);
    Trained& mine = of_rank[static_cast<std::size_t>(all.rank())];
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (int pass = 0; pass < options.backward_passes_per_step; ++pass) {
        loss_of(net, net, all.rank(), step + pass).backward();
      }
      optimizer.synchronize();
      mine.by_rows = row_gradient(net.table->weight).has_value();
      optimizer.step();
    }
    mine.weights = weights_of(net);
  });
  EXPECT_EQ(of_rank[0].weights, of_rank[1].weights);
  return of_rank[0];
}

TEST(SparseGradients, TrainAsDenseOnesWhateverTheOptions) {
  using When = ClipGradNorm::When;
  const std::vector<DistributedOptions> cases = {
      {},
      {.op = ReduceOp::kSum},
      {.backward_passes_per_step = 2},
      {.backward_passes_per_step = 2, .average_aggregated_gradients = true},
      {.num_groups = 2},
      {.num_groups = -1},
      {.clip_grad_norm = ClipGradNorm{0.25, When::kAfterReduction}},
      {.clip_grad_norm = ClipGradNorm{0.25, When::kBeforeReduction}},
      {.overlap_step = true},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Trained dense = train(false, cases[i]);
    const Trained sparse = train(true, cases[i]);
    ASSERT_EQ(sparse.weights.size(), dense.weights.size());
    for (std::size_t k = 0; k < dense.weights.size(); ++k) {
      EXPECT_NEAR(sparse.weights[k], dense.weights[k], 1e-6) << "case " << i << " weight " << k;
    }
    EXPECT_TRUE(sparse.by_rows) << i;
    EXPECT_FALSE(dense.by_rows) << i;
  }
}

TEST(SparseGradients, BecomeDenseOnRequest) {
  const Trained dense = train(true, {.sparse_as_dense = true});
  EXPECT_FALSE(dense.by_rows);
  EXPECT_EQ(dense.weights, train(true, {}).weights);
}

TEST(SparseGradients, TrainAsDenseOnesWithAdagradAndMomentum) {
  const std::vector<MakeOptimizer> makers = {
      [](const std::vector<Tensor>& params) {
        return std::make_shared<optim::Adagrad>(params, optim::AdagradOptions{.lr = 0.125});
      },
      [](const std::vector<Tensor>& params) {
        return std::make_shared<optim::SGD>(params,
                                            optim::SGDOptions{.lr = 0.125, .momentum = 0.5});
      }};
  for (const MakeOptimizer& make : makers) {
    EXPECT_EQ(train(true, {}, make).weights, train(false, {}, make).weights);
  }
}

TEST(SparseGradients, StayRowsInDistributedDataParallel) {
  std::vector<std::vector<double>> weights;
  for (const bool sparse : {false, true}) {
    weights.emplace_back();
    run_sets(2, [&](const ProcessSet& all) {
      const auto net = std::make_shared<Net>(sparse);
      DistributedDataParallel ddp(net, {.process_set = all});
      const auto sgd = make_sgd(net->parameters());
      for (std::int64_t step = 0; step < 3; ++step) {
        sgd->zero_grad();
        for (int pass = 0; pass < 2; ++pass) loss_of(*net, ddp, all.rank(), step + pass).backward();
        EXPECT_EQ(row_gradient(net->table->weight).has_value(), sparse);
        sgd->step();
      }
      if (all.rank() == 0) weights.back() = weights_of(*net);
    });
  }
  ASSERT_EQ(weights[0].size(), weights[1].size());
  for (std::size_t i = 0; i < weights[0].size(); ++i) {
    EXPECT_NEAR(weights[0][i], weights[1][i], 1e-6) << i;
  }
}

TEST(SparseGradients, StayRowsInAverageGradients) {
  run_sets(2, [](const ProcessSet& all) {
    nn::Embedding table(4, 2, std::nullopt, true);
    const std::vector<std::int64_t> rows = {all.rank(), 3};
    sum(table(Tensor::from(rows, {2}))).backward();
    average_gradients(table, {.process_set = all});
    const auto gradient = row_gradient(table.weight);
    ASSERT_TRUE(gradient.has_value());
    EXPECT_THAT(gradient->rows.to_vector(), ElementsAre(0, 1, 3));
    EXPECT_THAT(gradient->values.to_vector(), ElementsAre(0.5, 0.5, 0.5, 0.5, 1, 1));
  });
}

TEST(SparseGradients, OfAWeightThatIsAlsoReadAsAWholeAreReducedAsAllRows) {
  run_sets(2, [](const ProcessSet& all) {
    nn::Embedding table(3, 2, std::nullopt, true);
    const std::vector<std::int64_t> rows = {all.rank()};
    Tensor loss = sum(table(Tensor::from(rows, {1})));
    if (all.rank() == 0) loss = loss + sum(table.weight) * 2.0;
    loss.backward();
    average_gradients(table, {.process_set = all});
    EXPECT_THAT(table.weight.grad().to_vector(), ElementsAre(1.5, 1.5, 1.5, 1.5, 1, 1));
  });
}

}  // namespace
}  // namespace hvd
