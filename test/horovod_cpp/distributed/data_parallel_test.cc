#include "horovod_cpp/distributed/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using testing::HasSubstr;

std::shared_ptr<nn::Sequential> fresh_model() {
  manual_seed(3);
  auto model = std::make_shared<nn::Sequential>(nn::Linear(3, 5), nn::Tanh(), nn::Linear(5, 2));
  model->to(DType::kF64);
  return model;
}

Tensor rows(std::int64_t count) {
  manual_seed(4);
  return randn({count, 3}, DType::kF64);
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < want.to_vector().size(); ++i) {
    EXPECT_NEAR(got.to_vector()[i], want.to_vector()[i], 1e-12);
  }
}

TEST(DataParallel, ComputesWhatTheModuleAloneDoesHoweverTheRowsDivide) {
  for (const std::int64_t count : {1, 3, 7, 8}) {
    const auto plain = fresh_model(), inside = fresh_model();
    DataParallel model(inside, 4);
    Tensor input = rows(count).requires_grad_(), same = rows(count).requires_grad_();
    const Tensor expected = (*plain)(input), output = model(same);
    expect_near(output, expected);
    const Tensor weights = rows(count).slice(1, 0, 2);
    sum(expected * weights).backward();
    sum(output * weights).backward();
    expect_near(same.grad(), input.grad());
    for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
      expect_near(inside->parameters()[i].grad(), plain->parameters()[i].grad());
    }
  }
}

TEST(DataParallel, AddsGradientsUpInOneOrder) {
  std::vector<Tensor> gradients;
  for (int run = 0; run < 20; ++run) {
    const auto inside = fresh_model();
    inside->to(DType::kF32);
    DataParallel model(inside, 4);
    sum(model(rows(9).to(DType::kF32))).backward();
    gradients.push_back(inside->parameters()[0].grad());
    EXPECT_TRUE(bitwise_equal(gradients.back(), gradients.front())) << "run " << run;
  }
}

TEST(DataParallel, NormalisesEachReplicasRowsAndKeepsTheStatisticsOfTheFirst) {
  const auto inside = std::make_shared<nn::BatchNorm1d>(3);
  DataParallel model(inside, 2);
  const Tensor input = rows(6).to(DType::kF32);
  const Tensor output = model(input);
  nn::BatchNorm1d first(3), second(3);
  EXPECT_TRUE(bitwise_equal(output.slice(0, 0, 3).contiguous(), first(input.slice(0, 0, 3))));
  EXPECT_TRUE(bitwise_equal(output.slice(0, 3, 6).contiguous(), second(input.slice(0, 3, 6))));
  EXPECT_TRUE(bitwise_equal(inside->running_mean, first.running_mean));
  EXPECT_TRUE(bitwise_equal(inside->running_var, first.running_var));
  EXPECT_EQ(inside->num_batches_tracked.item(), 1);
}

TEST(DataParallel, DropsOtherElementsInEachReplicaAndTheSameOnesInEqualRuns) {
  DataParallel model(std::make_shared<nn::Dropout>(0.5), 2);
  const Tensor input = Tensor::ones({2, 64});
  manual_seed(1);
  const Tensor once = model(input), then = model(input);
  manual_seed(1);
  EXPECT_TRUE(bitwise_equal(model(input), once));
  EXPECT_FALSE(bitwise_equal(then, once));
  EXPECT_NE(once.select(0, 0).to_vector(), once.select(0, 1).to_vector());
}

TEST(DataParallel, SumsTheRowsOfASparseEmbedding) {
  const auto inside = std::make_shared<nn::Embedding>(4, 2, std::nullopt, /*sparse=*/true);
  DataParallel model(inside, 2);
  sum(model(Tensor::from(std::vector<std::int64_t>{1, 3, 3, 1, 1}, {5}))).backward();
  EXPECT_THAT(inside->weight.grad().to_vector(), testing::ElementsAre(0, 0, 3, 3, 0, 0, 2, 2));
}

TEST(DataParallel, RecordsNothingInsideNoGrad) {
  DataParallel model(fresh_model(), 3);
  const NoGradGuard no_grad;
  EXPECT_FALSE(model(rows(5)).requires_grad());
}

// Throws where a row is negative, in either direction.
class Picky : public nn::Module {
 public:
  Tensor forward(const Tensor& input) override {
    if (input.to_vector()[0] == -1) throw InvalidArgumentError("a bad row");
    if (input.to_vector()[0] == -2) throw std::out_of_range("a worse row");
    return input.to_vector()[0] == -3 ? sum(input) : input;
  }
};

TEST(DataParallel, NamesTheReplicaAndItsRowsWhereOneFails) {
  DataParallel model(std::make_shared<Picky>(), 3);
  const auto fails = [&](double value, std::int64_t row) {
    Tensor input = Tensor::zeros({5, 1});
    input.data<float>()[row] = static_cast<float>(value);
    return [&model, input] { model(input); };
  };
  EXPECT_THAT(message_of<InvalidArgumentError>(fails(-1, 2)),
              HasSubstr("DataParallel: replica 1 of 3 (rows 2 to 3): "));
  EXPECT_THAT(message_of<InvalidArgumentError>(fails(-1, 0)), HasSubstr("a bad row"));
  EXPECT_THAT(message_of<std::runtime_error>(fails(-2, 4)),
              HasSubstr("replica 2 of 3 (rows 4 to 4): a worse row"));
  EXPECT_THAT(message_of<InvalidArgumentError>(fails(-3, 2)), HasSubstr("one row for each"));
  EXPECT_EQ(model(Tensor::ones({5, 1})).numel(), 5);  // usable as before
}

TEST(DataParallel, NamesTheReplicaWhoseBackwardFails) {
  const auto inside = fresh_model();
  DataParallel model(inside, 2);
  const Tensor output = sum(model(rows(4)));
  output.backward({}, /*retain_graph=*/true);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { output.backward(); }),
              testing::AllOf(HasSubstr("replica 0 of 2"), HasSubstr("was freed")));
}

TEST(DataParallel, HasTheNamesOfTheModuleInsideAndRefusesWhatItCannotDivide) {
  const auto inside = fresh_model();
  DataParallel model(inside, 2);
  EXPECT_EQ(model.module(), inside);
  EXPECT_EQ(model.state_dict()[0].first, "0.weight");
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { model(rows(0)); }), HasSubstr("[0, 3]"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { DataParallel(inside, 0); }),
              HasSubstr("replicas is 0"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { DataParallel(nullptr, 2); }),
              HasSubstr("no module"));
}

}  // namespace
}  // namespace hvd
