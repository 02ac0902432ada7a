#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace {

constexpr std::int64_t kClasses = 4;
constexpr std::int64_t kPerClass = 24;

// 8 x 8 images with noise and one bright quadrant: which one is the class.
std::shared_ptr<data::TensorDataset> quadrants(std::uint64_t seed) {
  Generator generator(seed);
  Tensor images = randn({kClasses * kPerClass, 1, 8, 8}, DType::kF32, generator);
  images.mul_(0.3);
  Tensor labels = Tensor::empty({kClasses * kPerClass}, DType::kI64);
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const std::int64_t label = i % kClasses;
    labels.data<std::int64_t>()[i] = label;
    const std::int64_t row = label / 2 * 4;
    const std::int64_t column = label % 2 * 4;
    Tensor quadrant = images.select(0, i).slice(1, row, row + 4).slice(2, column, column + 4);
    quadrant.add_(Tensor::ones({1}));
  }
  return std::make_shared<data::TensorDataset>(std::vector<Tensor>{images, labels});
}

nn::Sequential small_cnn() {
  return nn::Sequential(nn::Conv2d(1, 4, 3, 1, 1), nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Linear(4 * 4 * 4, 16), nn::ReLU(), nn::Linear(16, 4));
}

using MakeOptimizer = std::unique_ptr<optim::Optimizer> (*)(const std::vector<Tensor>&);

std::unique_ptr<optim::Optimizer> make_sgd(const std::vector<Tensor>& params) {
  return std::make_unique<optim::SGD>(
      params, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
}

std::unique_ptr<optim::Optimizer> make_adam(const std::vector<Tensor>& params) {
  return std::make_unique<optim::Adam>(params, optim::AdamOptions{.lr = 0.01});
}

// What a program trains: a model with its optimizer and the order of its data.
struct Training {
  explicit Training(MakeOptimizer make, int workers = 0, std::uint64_t seed = 5)
      : loader(quadrants(1), {.batch_size = 16,
                              .shuffle = true,
                              .drop_last = true,
                              .num_workers = workers,
                              .seed = seed}) {
    manual_seed(seed);
    model = std::make_unique<nn::Sequential>(small_cnn());
    optimizer = make(model->parameters());
  }

  // Returns the losses.
  std::vector<double> run(int epochs) {
    std::vector<double> losses;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (const data::Sample& batch : loader) {
        optimizer->zero_grad();
        const Tensor loss = nn::CrossEntropyLoss()((*model)(batch[0]), batch[1]);
        loss.backward();
        optimizer->step();
        losses.push_back(loss.item());
      }
    }
    return losses;
  }

  double accuracy() {
    const NoGradGuard no_grad;
    model->eval();
    double correct = 0;
    const auto dataset = quadrants(2);
    data::DataLoader test(dataset, {.batch_size = 32});
    for (const data::Sample& batch : test) {
      const std::vector<double> guesses = argmax((*model)(batch[0]), 1).to_vector();
      const std::vector<double> labels = batch[1].to_vector();
      for (std::size_t i = 0; i < labels.size(); ++i) correct += guesses[i] == labels[i] ? 1 : 0;
    }
    model->train();
    return correct / static_cast<double>(dataset->size());
  }

  data::DataLoader loader;
  std::unique_ptr<nn::Sequential> model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(bitwise_equal(a[i].second, b[i].second)) << a[i].first;
  }
}

class TrainingWith : public ::testing::TestWithParam<MakeOptimizer> {};

TEST_P(TrainingWith, ReachesHighAccuracyInAFewDozenSteps) {
  Training training(GetParam());
  const std::vector<double> losses = training.run(6);
  EXPECT_EQ(losses.size(), 36u);
  EXPECT_LT(losses.back(), 0.1 * losses.front());
  EXPECT_GE(training.accuracy(), 0.97);
}

TEST_P(TrainingWith, IsBitwiseRepeatableWithOneSeedWhateverTheWorkers) {
  Training first(GetParam());
  Training second(GetParam(), /*workers=*/3);
  EXPECT_EQ(first.run(2), second.run(2));
  expect_equal(first.model->state_dict(), second.model->state_dict());
  Training other(GetParam(), 0, /*seed=*/6);
  other.run(2);
  EXPECT_FALSE(bitwise_equal(first.model->parameters()[0], other.model->parameters()[0]));
}

TEST_P(TrainingWith, ResumesBitwiseFromFiles) {
  const TemporaryFolder folder;
  Training uninterrupted(GetParam());
  uninterrupted.run(3);
  {
    Training first_half(GetParam());
    first_half.run(1);
    io::save(folder.file("model"), first_half.model->state_dict());
    io::save(folder.file("optimizer"), first_half.optimizer->state_dict());
  }
  manual_seed(99);
  Training second_half(GetParam());
  second_half.model->load_state_dict(io::load(folder.file("model")).tensors);
  second_half.optimizer->load_state_dict(io::load(folder.file("optimizer")).tensors);
  second_half.loader.sampler()->set_epoch(1);
  second_half.run(2);
  expect_equal(uninterrupted.model->state_dict(), second_half.model->state_dict());
  expect_equal(uninterrupted.optimizer->state_dict(), second_half.optimizer->state_dict());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TrainingWith, ::testing::Values(make_sgd, make_adam),
                         [](const auto& make) { return make.index == 0 ? "SGD" : "Adam"; });

}  // namespace
}  // namespace hvd
