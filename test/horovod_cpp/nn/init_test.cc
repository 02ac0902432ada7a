#include "horovod_cpp/nn/init.h"

#include <cmath>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace nn {
namespace {

using ::testing::Each;

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const Tensor& tensor) {
  Moments moments;
  double squares = 0;
  const std::vector<double> values = tensor.to_vector();
  for (const double value : values) {
    moments.mean += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  moments.mean /= count;
  moments.deviation = std::sqrt(squares / count - moments.mean * moments.mean);
  return moments;
}

TEST(Init, CountsTheFansOfAWeight) {
  const init::Fans fans = init::fans_of(Tensor::empty({64, 32, 3, 3}));
  EXPECT_EQ(fans.in, 288);
  EXPECT_EQ(fans.out, 576);
  EXPECT_EQ(init::fans_of(Tensor::empty({5, 7})).in, 7);
  EXPECT_THROW(init::fans_of(Tensor::empty({5})), InvalidArgumentError);
}

TEST(Init, ConstantsFillParametersOutsideOfTheGraph) {
  Tensor tensor = Tensor::empty({3}).requires_grad_();
  init::constant_(tensor, 0.5);
  EXPECT_THAT(tensor.to_vector(), Each(0.5));
  init::ones_(tensor);
  EXPECT_THAT(tensor.to_vector(), Each(1));
  init::zeros_(tensor);
  EXPECT_THAT(tensor.to_vector(), Each(0));
  init::normal_(tensor);
  EXPECT_TRUE(tensor.is_leaf());
  EXPECT_THROW(init::uniform_(tensor, 1, 0), InvalidArgumentError);
  EXPECT_THROW(init::normal_(tensor, 0, -1), InvalidArgumentError);
}

TEST(Init, IsRandomByTheGeneratorItIsGiven) {
  const auto drawn = [](const std::function<void(const Tensor&, Generator&)>& fill,
                        std::uint64_t seed) {
    Generator generator(seed);
    Tensor tensor = Tensor::empty({8, 8});
    fill(tensor, generator);
    return tensor;
  };
  const std::vector<std::function<void(const Tensor&, Generator&)>> fills = {
      [](const Tensor& t, Generator& g) { init::uniform_(t, 0, 1, g); },
      [](const Tensor& t, Generator& g) { init::normal_(t, 0, 1, g); },
      [](const Tensor& t, Generator& g) { init::xavier_uniform_(t, 1, g); },
      [](const Tensor& t, Generator& g) { init::xavier_normal_(t, 1, g); },
      [](const Tensor& t, Generator& g) {
        init::kaiming_uniform_(t, 0, init::FanMode::kFanIn, init::Nonlinearity::kReLU, g);
      },
      [](const Tensor& t, Generator& g) {
        init::kaiming_normal_(t, 0, init::FanMode::kFanIn, init::Nonlinearity::kReLU, g);
      },
      [](const Tensor& t, Generator& g) { init::orthogonal_(t, 1, g); },
  };
  for (const auto& fill : fills) {
    EXPECT_TRUE(bitwise_equal(drawn(fill, 1), drawn(fill, 1)));
    EXPECT_FALSE(bitwise_equal(drawn(fill, 1), drawn(fill, 2)));
  }
}

TEST(Init, LayersRepeatWithTheSeed) {
  manual_seed(3);
  const Linear a(4, 5);
  manual_seed(3);
  const Linear b(4, 5);
  const Linear c(4, 5);
  EXPECT_TRUE(bitwise_equal(a.weight, b.weight));
  EXPECT_TRUE(bitwise_equal(a.bias, b.bias));
  EXPECT_FALSE(bitwise_equal(a.weight, c.weight));
}

// rows x rows^T (or columns^T x columns) of an orthogonal matrix is gain^2 times the identity.
void expect_orthogonal(const Tensor& weight, double gain) {
  const Tensor matrix = weight.detach().flatten(1).to(DType::kF64);
  const bool wide = matrix.size(0) <= matrix.size(1);
  const Tensor product = wide ? matmul(matrix, matrix.t()) : matmul(matrix.t(), matrix);
  for (std::int64_t i = 0; i < product.size(0); ++i) {
    for (std::int64_t j = 0; j < product.size(1); ++j) {
      EXPECT_NEAR(product.select(0, i).select(0, j).item(), i == j ? gain * gain : 0.0, 1e-5);
    }
  }
}

TEST(Orthogonal, MakesRowsOrColumnsOrthogonal) {
  for (const Shape& shape : {Shape{6, 4}, Shape{4, 6}, Shape{3, 2, 2, 2}, Shape{5, 5}}) {
    const Tensor tensor = Tensor::empty(shape);
    init::orthogonal_(tensor, 2.0);
    expect_orthogonal(tensor, 2.0);
  }
  EXPECT_THROW(init::orthogonal_(Tensor::empty({3})), InvalidArgumentError);
}

TEST(TruncatedNormal, StaysWithinItsRangeAndHasItsMoments) {
  const Tensor tensor = Tensor::empty({20000});
  init::trunc_normal_(tensor, 1.0, 0.5, 0.0, 2.0);
  const Moments moments = moments_of(tensor);
  EXPECT_NEAR(moments.mean, 1.0, 0.02);
  EXPECT_NEAR(moments.deviation, 0.5 * 0.8796, 0.01);  // of N(0, 1) within +-2
  for (const double value : tensor.to_vector()) {
    EXPECT_GE(value, 0.0);
    EXPECT_LE(value, 2.0);
  }
}

TEST(TruncatedNormal, ReachesIntoTheTail) {
  const Tensor tensor = Tensor::empty({4000});
  init::trunc_normal_(tensor, 0.0, 1.0, 4.0, 100.0);
  const Moments moments = moments_of(tensor);
  EXPECT_NEAR(moments.mean, 4.2256, 0.02);  // phi(4) / (1 - Phi(4))
  for (const double value : tensor.to_vector()) EXPECT_GE(value, 4.0);
  EXPECT_THROW(init::trunc_normal_(tensor, 0, 1, 2, 1), InvalidArgumentError);
  EXPECT_THROW(init::trunc_normal_(Tensor::arange(3)), InvalidArgumentError);
}

TEST(Init, AppliesToAModelLayerByLayer) {
  Sequential model(Linear(3, 4), ReLU(), Sequential(Linear(4, 2)));
  model.apply([](Module& module) {
    if (auto* linear = dynamic_cast<Linear*>(&module)) {
      init::constant_(linear->weight, 0.5);
      init::zeros_(linear->bias);
    }
  });
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_THAT(parameter.to_vector(), Each(name.ends_with("weight") ? 0.5 : 0.0)) << name;
  }
}

// Whether the layers that `make` makes draw random numbers on this thread.
template <typename Make>
bool draws(const Make& make) {
  const Generator::State before = default_generator().state();
  make();
  return !(default_generator().state() == before);
}

void make_layers() {
  Linear linear(3, 2);
  Conv2d conv(3, 2, 3);
}

TEST(SkipInit, LeavesLayersUninitialisedWhileItLives) {
  {
    const SkipInit skip;
    EXPECT_TRUE(SkipInit::active());
    EXPECT_FALSE(draws(make_layers));
    {
      const SkipInit inner(false);  // cannot take back what an outer one asked for
      EXPECT_FALSE(draws(make_layers));
    }
    EXPECT_FALSE(draws(make_layers));
  }
  EXPECT_TRUE(draws([] { Linear linear(3, 2); }));
  EXPECT_TRUE(draws([] { Conv2d conv(3, 2, 3); }));
}

TEST(SkipInit, ConcernsItsOwnThreadOnly) {
  const SkipInit skip;
  bool other = false;
  std::thread([&] { other = draws(make_layers); }).join();
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace nn
}  // namespace hvd
