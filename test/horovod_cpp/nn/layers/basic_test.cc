#include "horovod_cpp/nn/layers/basic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/support/message_of.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor indices(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {count});
}

Tensor loss_of(Embedding& table, const std::vector<std::int64_t>& rows) {
  return sum(table(indices(rows)) * Tensor::from(std::vector<float>{1, 10}, {2}));
}

TEST(Embedding, LooksRowsUpAndStartsThePaddingAtZero) {
  Embedding table(4, 2, -1);
  EXPECT_THAT(table(indices({3})).to_vector(), Each(0));
  EXPECT_EQ(table(Tensor::zeros({2, 3}, DType::kI64)).shape(), (Shape{2, 3, 2}));
  EXPECT_THAT(table(indices({1})).to_vector(),
              ElementsAre(table.weight.select(0, 1).to_vector()[0],
                          table.weight.select(0, 1).to_vector()[1]));
}

TEST(Embedding, SumsGradientsOfARowAndGivesThePaddingNone) {
  Embedding table(3, 2, 1);
  loss_of(table, {0, 1, 0}).backward();
  EXPECT_THAT(table.weight.grad().to_vector(), ElementsAre(2, 20, 0, 0, 0, 0));
}

TEST(SparseEmbedding, KeepsTheRowsThatWereReadAlone) {
  Embedding table(5, 2, 1, /*sparse=*/true);
  loss_of(table, {4, 1, 0, 4}).backward();
  loss_of(table, {2, 4}).backward();
  const auto rows = row_gradient(table.weight);
  ASSERT_TRUE(rows.has_value());
  EXPECT_THAT(rows->rows.to_vector(), ElementsAre(0, 2, 4));
  EXPECT_THAT(rows->values.to_vector(), ElementsAre(1, 10, 1, 10, 3, 30));
  EXPECT_THAT(table.weight.grad().to_vector(), ElementsAre(1, 10, 0, 0, 1, 10, 0, 0, 3, 30));
  EXPECT_FALSE(row_gradient(table.weight).has_value());
  table.zero_grad();
  EXPECT_FALSE(table.weight.grad().defined());
}

TEST(SparseEmbedding, DropsItsRowsWithItsGradient) {
  Embedding table(5, 2, std::nullopt, true);
  loss_of(table, {4}).backward();
  table.zero_grad();
  EXPECT_FALSE(row_gradient(table.weight).has_value());
  EXPECT_FALSE(table.weight.grad().defined());
}

TEST(SparseEmbedding, IsAppliedByAnOptimizerAsADenseOneIs) {
  Embedding dense(4, 2), sparse(4, 2, std::nullopt, true);
  sparse.load_state_dict(dense.state_dict());
  for (Embedding* table : {&dense, &sparse}) {
    optim::SGD sgd(table->parameters(), {.lr = 0.5});
    for (int step = 0; step < 2; ++step) {
      sgd.zero_grad();
      loss_of(*table, {3, 0, 3}).backward();
      sgd.step();
    }
  }
  EXPECT_TRUE(bitwise_equal(dense.weight, sparse.weight));
}

TEST(SparseEmbedding, IsDenseWhereSomebodyAsksForTheWhole) {
  Embedding table(3, 2, std::nullopt, true);
  const Tensor whole = grad({loss_of(table, {2})}, {table.weight})[0];
  EXPECT_THAT(whole.to_vector(), ElementsAre(0, 0, 0, 0, 1, 10));
  EXPECT_FALSE(table.weight.grad().defined());
}

TEST(SparseEmbedding, TellsHooksOfItsRowsOnceAPass) {
  Embedding table(3, 2, std::nullopt, true);
  int calls = 0;
  table.weight.register_hook([&](const Tensor& leaf) {
    ++calls;
    ASSERT_TRUE(row_gradient(leaf).has_value());
    EXPECT_THAT(row_gradient(leaf)->rows.to_vector(), ElementsAre(0, 2));
  });
  (loss_of(table, {2}) + loss_of(table, {0, 2})).backward();
  EXPECT_EQ(calls, 1);
  sum(Tensor::ones({1}).requires_grad_()).backward();
  EXPECT_EQ(calls, 1);
}

TEST(SparseEmbedding, SaysThatItsGradientsAreRows) {
  EXPECT_TRUE(expects_row_gradients(Embedding(3, 2, std::nullopt, true).weight));
  EXPECT_FALSE(expects_row_gradients(Embedding(3, 2).weight));
  EXPECT_THROW(expect_row_gradients(Tensor::zeros({3, 2})), InvalidArgumentError);
}

TEST(SparseEmbedding, AddsUpWithADenseUseOfTheSameWeight) {
  Embedding table(2, 2, std::nullopt, true);
  (loss_of(table, {1}) + sum(table.weight)).backward();
  EXPECT_THAT(table.weight.grad().to_vector(), ElementsAre(1, 1, 2, 11));
}

TEST(Embedding, NamesTheIndexThatIsNoRow) {
  Embedding table(3, 2);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                table(indices({0, 3}));
              }),
              HasSubstr("index 3 at position 1 of [2] for weight [3, 2]"));
  EXPECT_THROW(table(indices({-1})), InvalidArgumentError);
  EXPECT_THROW(table(Tensor::zeros({1})), InvalidArgumentError);
  EXPECT_THROW(Embedding(3, 2, 3), InvalidArgumentError);
}

TEST(RowGradient, RefusesWhatDoesNotFitItsLeaf) {
  Embedding table(3, 2);
  const Tensor& leaf = table.weight;
  EXPECT_THROW(add_row_gradient(leaf, indices({3}), Tensor::ones({1, 2})), InvalidArgumentError);
  EXPECT_THROW(add_row_gradient(leaf, indices({0}), Tensor::ones({2, 2})), InvalidArgumentError);
  EXPECT_FALSE(leaf.grad().defined());
}

}  // namespace
}  // namespace nn
}  // namespace hvd
