#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/nn/layers/transformer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/reference_file.h"

namespace hvd {
namespace {

double distance(const Tensor& given, const Tensor& expected) {
  return norm(given.to(DType::kF64) - expected.to(DType::kF64)).item() /
         norm(expected.to(DType::kF64)).item();
}

// A case of test/support/reference/autocast.py: PyTorch's loss in its region within 2e-3 of it, and
// its gradients within 2e-2 of their norm. Its own float32 gradients are 1e-2 away.
void expect_torchs(const std::string& name, nn::Module& model,
                   const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of) {
  const io::StateFile& file = reference_file("autocast");
  const std::map<std::string, Tensor> stored(file.tensors.begin(), file.tensors.end());
  {
    const NoGradGuard no_grad;
    for (auto [path, parameter] : model.named_parameters()) {
      parameter.copy_(stored.at(name + "/" + path));
    }
  }
  Tensor loss;
  {
    const AutocastGuard autocast;
    const Tensor output = model(stored.at(name + "/input"));
    EXPECT_EQ(output.dtype(), DType::kBF16);
    loss = loss_of(output, stored.at(name + "/targets"));
  }
  EXPECT_EQ(loss.dtype(), DType::kF32);
  EXPECT_NEAR(loss.item(), stored.at(name + "/loss").item(), 2e-3 * loss.item());
  loss.backward();
  for (const auto& [path, parameter] : model.named_parameters()) {
    ASSERT_EQ(parameter.grad().dtype(), DType::kF32);
    EXPECT_LT(distance(parameter.grad(), stored.at(name + "/grad_" + path)), 2e-2) << path;
  }
}

TEST(AutocastReference, AConvolutionalNetGivesPyTorchsLossAndGradients) {
  nn::Sequential model(nn::Conv2d(3, 8, 3, 1, 1), nn::Tanh(), nn::AvgPool2d(2),
                       nn::Conv2d(8, 16, 3, 2, 1, false), nn::BatchNorm2d(16), nn::Tanh(),
                       nn::Flatten(), nn::Linear(64, 5));
  expect_torchs("conv_net", model,
                [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); });
}

TEST(AutocastReference, APerceptronGivesPyTorchsLossAndGradients) {
  nn::Sequential model(nn::Linear(12, 24), nn::GELU(), nn::Linear(24, 6));
  expect_torchs("mlp", model, [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); });
}

std::shared_ptr<nn::Sequential> small_net() {
  manual_seed(3);
  return std::make_shared<nn::Sequential>(nn::Conv2d(1, 8, 3, 1, 1, false), nn::BatchNorm2d(8),
                                          nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(8, 16, 3, 1, 1),
                                          nn::ReLU(), nn::Dropout(0.1), nn::AdaptiveAvgPool2d(2),
                                          nn::Flatten(), nn::Linear(64, 3));
}

// Images whose class is where the bright half lies: learned in a few steps.
struct Data {
  Tensor images, targets;
};
Data data() {
  Generator generator(4);
  Data result = {randn({24, 1, 8, 8}, DType::kF32, generator), randint(0, 3, {24}, generator)};
  for (std::int64_t i = 0; i < 24; ++i) {
    const std::int64_t kind = result.targets.data<std::int64_t>()[i];
    Tensor part = result.images.select(0, i).slice(1, 2 * kind, 2 * kind + 3);
    part.add_(Tensor::full(part.shape(), 2.0));
  }
  return result;
}

template <typename Step>
double final_loss(Step step) {
  double loss = 0.0;
  for (int i = 0; i < 30; ++i) loss = step();
  return loss;
}

double train(nn::Module& model, bool autocast, DType dtype, const Data& batch) {
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  return final_loss([&] {
    optimizer.zero_grad();
    Tensor loss;
    {
      const AutocastGuard region(DType::kBF16, autocast);
      loss = cross_entropy(model(batch.images.to(dtype)), batch.targets);
    }
    loss.backward();
    optimizer.step();
    return loss.item();
  });
}

TEST(AutocastTraining, ReachesTheLossOfFloat32WithFloat32Parameters) {
  const Data batch = data();
  const auto exact = small_net();
  const double expected = train(*exact, false, DType::kF32, batch);
  EXPECT_LT(expected, 0.2);
  const auto model = small_net();
  EXPECT_NEAR(train(*model, true, DType::kF32, batch), expected, 0.05);
  for (const Tensor& parameter : model->parameters()) EXPECT_EQ(parameter.dtype(), DType::kF32);
}

TEST(AutocastTraining, AModelOfHalfTypesTrainsByTheOptimizersFloat32Masters) {
  const Data batch = data();
  const double expected = train(*small_net(), false, DType::kF32, batch);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto model = small_net();
    model->to(dtype);
    EXPECT_NEAR(train(*model, false, dtype, batch), expected, 0.08) << name_of(dtype);
    for (const Tensor& parameter : model->parameters()) EXPECT_EQ(parameter.dtype(), dtype);
  }
}

// Forward and backward of `layer` in a region; gives the dtype of its output.
DType dtype_through(nn::Module& layer, const Tensor& input) {
  Tensor output;
  {
    const AutocastGuard autocast;
    output = layer(input);
    mean(square(output)).backward();
  }
  for (const auto& [path, parameter] : layer.named_parameters()) {
    EXPECT_EQ(parameter.grad().dtype(), DType::kF32) << path;
    EXPECT_TRUE(std::isfinite(sum(parameter.grad()).item())) << path;
  }
  return output.dtype();
}

TEST(AutocastLayers, TakeHalfInputWithFloat32Parameters) {
  Generator generator(5);
  const Tensor rows = randn({6, 4, 8}, DType::kBF16, generator);
  const Tensor images = randn({6, 4, 6, 6}, DType::kBF16, generator);
  nn::BatchNorm1d norm1d(4);
  nn::BatchNorm2d norm2d(4);
  nn::LayerNorm layer_norm(Shape{8});
  nn::GroupNorm group_norm(2, 4);
  EXPECT_EQ(dtype_through(norm1d, rows), DType::kBF16);
  EXPECT_EQ(dtype_through(norm2d, images), DType::kBF16);
  EXPECT_EQ(norm2d.running_mean.dtype(), DType::kF32);
  EXPECT_EQ(dtype_through(layer_norm, rows), DType::kBF16);
  EXPECT_EQ(dtype_through(group_norm, images), DType::kBF16);
  nn::MultiheadAttention attention(8, 2);
  EXPECT_EQ(dtype_through(attention, rows), DType::kBF16);
  nn::LSTM lstm(8, 5);
  nn::GRU gru(8, 5);
  EXPECT_EQ(dtype_through(lstm, rows), DType::kF32);
  EXPECT_EQ(dtype_through(gru, rows), DType::kF32);
}

TEST(HalfLayers, RunForwardAndBackwardInTheirDtype) {
  Generator generator(6);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor rows = randn({6, 4, 8}, dtype, generator);
    const Tensor images = randn({6, 4, 6, 6}, dtype, generator);
    const auto expect_through = [&](nn::Module& layer, const Tensor& input) {
      layer.to(dtype);
      Tensor leaf = input.clone().requires_grad_();
      const Tensor output = layer(leaf);
      EXPECT_EQ(output.dtype(), dtype) << layer.class_name();
      mean(square(output)).backward();
      EXPECT_EQ(leaf.grad().dtype(), dtype) << layer.class_name();
      for (const Tensor& parameter : layer.parameters()) {
        EXPECT_EQ(parameter.grad().dtype(), dtype) << layer.class_name();
      }
    };
    nn::BatchNorm2d norm(4);
    nn::LSTM lstm(8, 5);
    nn::GRU gru(8, 5);
    nn::MultiheadAttention attention(8, 2);
    nn::MaxPool2d max_pool(2);
    nn::Softmax softmax(-1);
    nn::ConvTranspose2d transposed(4, 2, 3);
    expect_through(norm, images);
    expect_through(lstm, rows);
    expect_through(gru, rows);
    expect_through(attention, rows);
    expect_through(max_pool, images);
    expect_through(softmax, rows);
    expect_through(transposed, images);
  }
}

}  // namespace
}  // namespace hvd
