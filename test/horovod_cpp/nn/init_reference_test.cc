// What the initialisers draw against what PyTorch's draw (test/support/reference/init.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/reference_file.h"

namespace hvd {
namespace nn {
namespace {

using init::FanMode;
using init::Nonlinearity;

// Of two samples of thousands: mean and deviation within 5 % of the deviation. Where there are
// bounds, both come as close to them; else `bounded` is false.
void expect_same_distribution(const std::string& name, const Tensor& tensor, bool bounded) {
  const std::vector<double> expected = reference_tensor("init", name + "/moments").to_vector();
  const std::vector<double> values = tensor.to_vector();
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double tolerance = 0.05 * expected[1];
  EXPECT_NEAR(mean, expected[0], tolerance) << name;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), expected[1], tolerance)
      << name;
  if (!bounded) return;
  EXPECT_NEAR(*std::ranges::min_element(values), expected[2], tolerance) << name;
  EXPECT_NEAR(*std::ranges::max_element(values), expected[3], tolerance) << name;
}

TEST(InitReference, DrawsFromPyTorchsDistributions) {
  struct Case {
    const char* name;
    std::function<void(const Tensor&)> fill;
    bool bounded;
  };
  const std::vector<Case> cases = {
      {"uniform", [](const Tensor& w) { init::uniform_(w, 2, 3); }, true},
      {"normal", [](const Tensor& w) { init::normal_(w, 5, 0.5); }, false},
      {"xavier_uniform", [](const Tensor& w) { init::xavier_uniform_(w, 2.0); }, true},
      {"xavier_normal", [](const Tensor& w) { init::xavier_normal_(w, 0.5); }, false},
      {"kaiming_uniform", [](const Tensor& w) { init::kaiming_uniform_(w); }, true},
      {"kaiming_uniform_slope",
       [](const Tensor& w) { init::kaiming_uniform_(w, 2.0, FanMode::kFanOut); }, true},
      {"kaiming_normal",
       [](const Tensor& w) { init::kaiming_normal_(w, 0, FanMode::kFanOut, Nonlinearity::kReLU); },
       false},
      {"kaiming_normal_tanh",
       [](const Tensor& w) { init::kaiming_normal_(w, 0, FanMode::kFanIn, Nonlinearity::kTanh); },
       false},
      {"trunc_normal", [](const Tensor& w) { init::trunc_normal_(w); }, true},
      {"trunc_normal_narrow", [](const Tensor& w) { init::trunc_normal_(w, 0.5, 2.0, -1.0, 1.5); },
       true}};
  manual_seed(3);
  for (const Case& each : cases) {
    const Tensor weight = Tensor::empty({64, 32, 3, 3});
    each.fill(weight);
    expect_same_distribution(each.name, weight, each.bounded);
  }
}

TEST(InitReference, LayersStartAsPyTorchs) {
  manual_seed(4);
  const Linear linear(200, 300);
  const Conv2d conv(32, 64, 3);
  expect_same_distribution("linear", linear.weight, true);
  expect_same_distribution("conv", conv.weight, true);
  for (const auto& [name, bias] : {std::pair{"linear", linear.bias}, {"conv", conv.bias}}) {
    const double bound = reference_tensor("init", std::string(name) + "/bias_bound").item();
    double largest = 0;
    for (const double value : bias.to_vector()) largest = std::max(largest, std::abs(value));
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.8 * bound) << name;
  }
}

TEST(InitReference, OrthogonalRowsAndGainsArePyTorchs) {
  const Tensor weight = Tensor::empty({3, 5, 2}, DType::kF64);
  init::orthogonal_(weight, 1.5);
  const Tensor rows = weight.reshape({3, 10});
  const std::vector<double> product = matmul(rows, rows.t()).to_vector();
  const std::vector<double> expected = reference_tensor("init", "orthogonal/product").to_vector();
  for (std::size_t i = 0; i < product.size(); ++i) EXPECT_NEAR(product[i], expected[i], 1e-12);
  const std::vector<double> gains = reference_tensor("init", "gains").to_vector();
  const std::vector<Nonlinearity> of = {Nonlinearity::kLinear,    Nonlinearity::kSigmoid,
                                        Nonlinearity::kTanh,      Nonlinearity::kReLU,
                                        Nonlinearity::kLeakyReLU, Nonlinearity::kSELU};
  for (std::size_t i = 0; i < of.size(); ++i) {
    EXPECT_NEAR(init::calculate_gain(of[i]), gains[i], 1e-12);
  }
}

}  // namespace
}  // namespace nn
}  // namespace hvd
