#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

// Small integers, so that sums are exact in any order.
Tensor integers(Shape shape, std::uint64_t seed, DType dtype = DType::kF32) {
  Generator generator(seed);
  return randint(-4, 5, std::move(shape), generator).to(dtype);
}

// The definition, seven loops.
V convolve(const Tensor& x, const Tensor& w, const Tensor& b, std::int64_t stride,
           std::int64_t padding) {
  const V in = x.to_vector();
  const V kernel = w.to_vector();
  const std::int64_t oh = (x.size(2) + 2 * padding - w.size(2)) / stride + 1;
  const std::int64_t ow = (x.size(3) + 2 * padding - w.size(3)) / stride + 1;
  V out;
  for (std::int64_t n = 0; n < x.size(0); ++n) {
    for (std::int64_t co = 0; co < w.size(0); ++co) {
      for (std::int64_t y = 0; y < oh; ++y) {
        for (std::int64_t z = 0; z < ow; ++z) {
          double total = b.to_vector()[static_cast<std::size_t>(co)];
          for (std::int64_t ci = 0; ci < w.size(1); ++ci) {
            for (std::int64_t ky = 0; ky < w.size(2); ++ky) {
              for (std::int64_t kx = 0; kx < w.size(3); ++kx) {
                const std::int64_t iy = y * stride - padding + ky;
                const std::int64_t ix = z * stride - padding + kx;
                if (iy < 0 || iy >= x.size(2) || ix < 0 || ix >= x.size(3)) continue;
                total += in[static_cast<std::size_t>(
                             ((n * x.size(1) + ci) * x.size(2) + iy) * x.size(3) + ix)] *
                         kernel[static_cast<std::size_t>(
                             ((co * w.size(1) + ci) * w.size(2) + ky) * w.size(3) + kx)];
              }
            }
          }
          out.push_back(total);
        }
      }
    }
  }
  return out;
}

struct ConvCase {
  Shape input, weight;
  int stride, padding;
};

class Conv2d : public testing::TestWithParam<ConvCase> {};

TEST_P(Conv2d, MatchesTheDefinitionExactlyOnIntegers) {
  const ConvCase& c = GetParam();
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor x = integers(c.input, 1, dtype);
    const Tensor w = integers(c.weight, 2, dtype);
    const Tensor b = integers({c.weight[0]}, 3, dtype);
    EXPECT_EQ(conv2d(x, w, b, c.stride, c.padding).to_vector(),
              convolve(x, w, b, c.stride, c.padding));
    const Tensor none = Tensor::zeros({c.weight[0]}, dtype);
    EXPECT_EQ(conv2d(x, w, {}, c.stride, c.padding).to_vector(),
              convolve(x, w, none, c.stride, c.padding));
  }
}

TEST_P(Conv2d, GradientsMatchDifferences) {
  const ConvCase& c = GetParam();
  Shape small = c.input;
  small[0] = std::min<std::int64_t>(small[0], 2);
  gradcheck([&](const Inputs& x) { return conv2d(x[0], x[1], x[2], c.stride, c.padding); },
            {leaf(small), leaf(c.weight, -1, 1, 2), leaf({c.weight[0]}, -1, 1, 3)});
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2d,
                         testing::Values(ConvCase{{2, 1, 5, 5}, {2, 1, 3, 3}, 1, 0},
                                         ConvCase{{3, 2, 4, 5}, {3, 2, 3, 3}, 1, 1},
                                         ConvCase{{2, 2, 7, 6}, {1, 2, 3, 2}, 2, 1},
                                         ConvCase{{5, 3, 4, 4}, {2, 3, 1, 1}, 1, 0},
                                         ConvCase{{2, 1, 5, 5}, {1, 1, 5, 5}, 3, 2},
                                         ConvCase{{1, 1, 2, 2}, {1, 1, 3, 3}, 1, 3},
                                         ConvCase{{1, 2, 17, 17}, {2, 2, 3, 3}, 1, 1},
                                         ConvCase{{70, 1, 2, 2}, {2, 1, 1, 1}, 1, 0}));

TEST(Conv2d, OfAnEmptyBatchIsEmpty) {
  Tensor x = Tensor::ones({0, 1, 4, 4}).requires_grad_();
  Tensor w = Tensor::ones({2, 1, 3, 3}).requires_grad_();
  const Tensor y = conv2d(x, w);
  EXPECT_EQ(y.shape(), (Shape{0, 2, 2, 2}));
  sum(y).backward();
  EXPECT_EQ(w.grad().to_vector(), V(18, 0.0));
}

TEST(MaxPool2d, TakesTheLargestOfEachWindow) {
  const Tensor x = values({1, 2, 5, 3, 4, 0, 1, 1, 9, 8, 7, 6, 5, 4, 3, 2}, {1, 1, 4, 4});
  EXPECT_EQ(max_pool2d(x, 2).to_vector(), (V{4, 5, 9, 7}));
  EXPECT_EQ(max_pool2d(x, 3, 1).to_vector(), (V{9, 8, 9, 8}));
  EXPECT_EQ(max_pool2d(x, 3).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_THROW(max_pool2d(x, 5), InvalidArgumentError);
  EXPECT_THROW(max_pool2d(x, 2, -1), InvalidArgumentError);
}

TEST(MaxPool2d, GivesATiesGradientToTheFirst) {
  Tensor x = Tensor::ones({1, 1, 2, 4}).requires_grad_();
  sum(max_pool2d(x, 2)).backward();
  EXPECT_EQ(x.grad().to_vector(), (V{1, 0, 1, 0, 0, 0, 0, 0}));
}

TEST(MaxPool2d, AddsUpGradientsOfOverlappingWindows) {
  gradcheck([](const Inputs& x) { return max_pool2d(x[0], 2, 1); }, {leaf({2, 2, 3, 4})});
  gradcheck([](const Inputs& x) { return max_pool2d(x[0], 2); }, {leaf({2, 2, 5, 4})});
}

TEST(MaxPool2d, OfManyChannelsIsThatOfEach) {
  constexpr std::int64_t kChannels = 19;
  Tensor x = integers({2, kChannels, 9, 7}, 1);
  x.data<float>()[5] = x.data<float>()[6] = std::nanf("");
  x.requires_grad_();
  const Pool2dOptions options = {
      .kernel_size = {2, 3}, .stride = 2, .padding = {1, 0}, .ceil_mode = true};
  const Tensor y = max_pool2d(x, options);
  EXPECT_TRUE(kernels::is_channels_last(y));
  EXPECT_TRUE(kernels::is_channels_last(max_pool2d(x.slice(1, 0, 3), options)));
  sum(y).backward();
  for (std::int64_t c = 0; c < kChannels; ++c) {
    const Tensor plane = x.detach().slice(1, c, c + 1).clone().requires_grad_();
    const Tensor expected = max_pool2d(plane, options);
    EXPECT_TRUE(bitwise_equal(y.detach().slice(1, c, c + 1).contiguous(), expected.contiguous()));
    sum(expected).backward();
    EXPECT_EQ(x.grad().slice(1, c, c + 1).to_vector(), plane.grad().to_vector());
  }
}

TEST(MaxPool2d, LetsANaNThrough) {
  const Tensor x = values({1, std::nan(""), 3, 4}, {1, 1, 2, 2});
  EXPECT_TRUE(std::isnan(max_pool2d(x, 2).item()));
}

struct Statistics {
  Tensor mean = Tensor::zeros({2}, DType::kF64);
  Tensor variance = Tensor::ones({2}, DType::kF64);
};

TEST(BatchNorm, NormalisesEachChannelAndMovesTheStatistics) {
  const Tensor x = values({1, 3, 10, 10, 5, 7, 10, 14}, {2, 2, 1, 2});
  Statistics s;
  const Tensor one = Tensor::ones({2}, DType::kF64);
  const Tensor zero = Tensor::zeros({2}, DType::kF64);
  const V y = batch_norm(x, one, zero, s.mean, s.variance, true, 0.5, 0.0).to_vector();
  const double d = std::sqrt(5.0);  // channel 0: 1 3 5 7, mean 4, variance 5
  const double e = std::sqrt(3.0);  // channel 1: 10 10 10 14, mean 11, variance 3
  const V expected = {-3 / d, -1 / d, -1 / e, -1 / e, 1 / d, 3 / d, -1 / e, 3 / e};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-14);
  EXPECT_EQ(s.mean.to_vector(), (V{2, 5.5}));
  // 0.5 * 1 + 0.5 * unbiased variance (20/3 and 4)
  EXPECT_NEAR(s.variance.to_vector()[0], 0.5 + 10.0 / 3, 1e-14);
  EXPECT_NEAR(s.variance.to_vector()[1], 2.5, 1e-14);
}

TEST(BatchNorm, UsesRunningStatisticsInEvaluationAndLeavesThem) {
  const Tensor x = values({1, 3, 10, 10}, {1, 2, 1, 2});
  Statistics s;
  s.mean.fill_(1.0);
  s.variance.fill_(4.0);
  const Tensor y =
      batch_norm(x, Tensor::full({2}, 2.0, DType::kF64), Tensor::full({2}, 1.0, DType::kF64),
                 s.mean, s.variance, false, 0.1, 0.0);
  EXPECT_EQ(y.to_vector(), (V{1, 3, 10, 10}));
  EXPECT_EQ(s.mean.to_vector(), V(2, 1.0));
}

TEST(BatchNorm, KeepsItsPrecisionFarFromZero) {
  Generator generator(5);
  const Tensor x = randn({8, 2, 8, 8}, DType::kF32, generator) + 1000.0;
  Tensor mean_ = Tensor::zeros({2});
  Tensor variance = Tensor::ones({2});
  batch_norm(x, Tensor::ones({2}), Tensor::zeros({2}), mean_, variance, true, 1.0);
  EXPECT_NEAR(mean_.to_vector()[0], 1000.0, 0.2);
  EXPECT_NEAR(variance.to_vector()[0], 1.0, 0.2);
}

TEST(BatchNorm, GradientsKeepNoMoreMemoryThanTheirOwn) {
  constexpr std::int64_t kChannels = 1000;
  Tensor mean = Tensor::zeros({kChannels}, DType::kF64);
  Tensor variance = Tensor::ones({kChannels}, DType::kF64);
  const Tensor weight = leaf({kChannels});
  const Tensor bias = leaf({kChannels});
  sum(batch_norm(leaf({2, kChannels, 1, 1}), weight, bias, mean, variance, true)).backward();
  EXPECT_EQ(impl_of(bias.grad()).storage->bytes, impl_of(weight.grad()).storage->bytes);
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  Statistics s;
  const Tensor two = Tensor::ones({2}, DType::kF64);
  const auto call = [&](const Tensor& x, const Tensor& w) {
    batch_norm(x, w, two, s.mean, s.variance, true);
  };
  EXPECT_THROW(call(Tensor::ones({2, 3, 2, 2}, DType::kF64), two), InvalidArgumentError);
  EXPECT_THROW(call(Tensor::ones({2, 2, 2, 2}), two), InvalidArgumentError);
  EXPECT_THROW(call(Tensor::ones({1, 2, 1, 1}, DType::kF64), two), InvalidArgumentError);
  EXPECT_THROW(call(Tensor::ones({2, 2, 2, 2}, DType::kF64), {}), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd
