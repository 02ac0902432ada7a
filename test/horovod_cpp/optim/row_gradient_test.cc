// Optimizers and clipping on gradients of rows.
#include "horovod_cpp/autograd/row_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace optim {
namespace {

using ::testing::ElementsAre;

Tensor table(DType dtype = DType::kF32) {
  std::vector<double> values;
  for (int i = 0; i < 10; ++i) values.push_back(0.25 * i - 1);
  return Tensor::from(values, {5, 2}).to(dtype).requires_grad_();
}

void add_rows(const Tensor& leaf, const std::vector<std::int64_t>& rows,
              const std::vector<double>& values) {
  const auto count = static_cast<std::int64_t>(rows.size());
  add_row_gradient(leaf, Tensor::from(rows, {count}),
                   Tensor::from(values, {count, 2}).to(leaf.dtype()));
}

using Make = std::function<std::shared_ptr<Optimizer>(const Tensor& param)>;

template <typename Optimizer, typename Options>
Make maker(const Options& options) {
  return [options](const Tensor& param) {
    return std::make_shared<Optimizer>(std::vector<Tensor>{param}, options);
  };
}

// Three steps from the same gradients, in the one form and in the other.
void expect_equal_steps(const Make& make, DType dtype, bool keeps_rows) {
  const Tensor sparse = table(dtype);
  Tensor dense = table(dtype);
  const auto of_sparse = make(sparse);
  const auto of_dense = make(dense);
  for (int step = 0; step < 3; ++step) {
    of_sparse->zero_grad();
    add_rows(sparse, {4, step, 4}, {1, 2, 3, 4, 0.5, 0.75});
    add_rows(sparse, {1}, {-1, 0.1});
    const Tensor copy = table(dtype);
    add_rows(copy, {4, step, 4}, {1, 2, 3, 4, 0.5, 0.75});
    add_rows(copy, {1}, {-1, 0.1});
    dense.set_grad(copy.grad());
    of_sparse->step();
    of_dense->step();
    EXPECT_EQ(row_gradient(sparse).has_value(), keeps_rows);
  }
  EXPECT_TRUE(bitwise_equal(sparse.detach(), dense.detach()));
}

TEST(RowGradients, TakeSgdThroughTheBitsOfADenseStep) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    expect_equal_steps(maker<SGD>(SGDOptions{.lr = 0.1}), dtype, true);
    expect_equal_steps(maker<SGD>(SGDOptions{.lr = 0.1, .maximize = true}), dtype, true);
  }
}

TEST(RowGradients, TakeAdagradThroughTheBitsOfADenseStep) {
  const AdagradOptions options = {.lr = 0.1, .lr_decay = 0.5, .initial_accumulator_value = 0.25};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    expect_equal_steps(maker<Adagrad>(options), dtype, true);
  }
}

TEST(RowGradients, BecomeDenseWhereEveryRowMoves) {
  const DType dtype = DType::kF32;
  expect_equal_steps(maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.5}), dtype, false);
  expect_equal_steps(maker<SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.5}), dtype, false);
  expect_equal_steps(maker<Adagrad>(AdagradOptions{.weight_decay = 0.5}), dtype, false);
  expect_equal_steps(maker<Adam>(AdamOptions{}), dtype, false);
  expect_equal_steps(maker<SGD>(SGDOptions{.lr = 0.1}), DType::kBF16, false);
}

TEST(RowGradients, AreClippedInPlaceWithTheOthers) {
  const Tensor sparse = table();
  Tensor dense = Tensor::zeros({1}).requires_grad_();
  add_rows(sparse, {3}, {0, 3});
  add_rows(sparse, {1}, {2, 0});
  dense.set_grad(Tensor::full({1}, 6));
  EXPECT_NEAR(clip_grad_norm_({sparse, dense}, 3.5), 7, 1e-6);
  ASSERT_TRUE(row_gradient(sparse).has_value());
  EXPECT_THAT(row_gradient(sparse)->rows.to_vector(), ElementsAre(1, 3));
  EXPECT_NEAR(gradient_values(sparse).to_vector()[0], 1, 1e-6);
  EXPECT_NEAR(dense.grad().item(), 3, 1e-6);
  clip_grad_value_({sparse}, 0.5);
  EXPECT_THAT(gradient_values(sparse).to_vector(), ElementsAre(0.5, 0, 0, 0.5));
  EXPECT_TRUE(row_gradient(sparse).has_value());
}

}  // namespace
}  // namespace optim
}  // namespace hvd
