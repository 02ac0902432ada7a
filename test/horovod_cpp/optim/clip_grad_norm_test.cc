#include "horovod_cpp/optim/clip_grad_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/status.h"
#include "test/horovod_cpp/optim/optim_reference.h"
#include "test/support/message_of.h"

namespace hvd {
namespace optim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor with_grad(const Tensor& grad) {
  Tensor param = Tensor::zeros(grad.shape(), grad.dtype()).requires_grad_();
  param.set_grad(grad.clone());
  return param;
}

Tensor with_grad(std::vector<double> grad, DType dtype = DType::kF32) {
  const auto numel = static_cast<std::int64_t>(grad.size());
  return with_grad(Tensor::from(grad, {numel}).to(dtype));
}

TEST(ClipGradNorm, ScalesAsPyTorchForEveryKindOfNorm) {
  for (const auto& [name, norm_type] :
       {std::pair{"l1", 1.0}, {"l2", 2.0}, {"l3", 3.0}, {"inf", kInfinity}}) {
    const std::string key = std::string("clip_") + name + "/";
    const Tensor a = with_grad(optim_reference("clip/grad_a"));
    const Tensor b = with_grad(optim_reference("clip/grad_b"));
    const Tensor none = Tensor::zeros({3});
    const double norm = clip_grad_norm_({a, none, b}, 1.5, {.norm_type = norm_type});
    EXPECT_NEAR(norm, optim_reference(key + "norm").item(), 1e-5) << name;
    EXPECT_THAT(a.grad().to_vector(),
                Pointwise(DoubleNear(1e-6), optim_reference(key + "a").to_vector()));
    EXPECT_THAT(b.grad().to_vector(),
                Pointwise(DoubleNear(1e-6), optim_reference(key + "b").to_vector()));
  }
}

TEST(ClipGradNorm, TakesHalfPrecisionWhoseSquaresWouldOverflow) {
  const Tensor param = with_grad({3e4, -4e4}, DType::kF16);
  EXPECT_NEAR(clip_grad_norm_({param}, 5), 5e4, 20);
  EXPECT_THAT(param.grad().to_vector(), Pointwise(DoubleNear(0.01), {3.0, -4.0}));
}

TEST(ClipGradNorm, ThrowsOnANormThatIsNotFiniteIfAsked) {
  for (const double bad : {kInfinity, std::nan("")}) {
    for (const double norm_type : {1.0, 2.0, kInfinity}) {
      const Tensor a = with_grad({1, bad, 2});
      const Tensor b = with_grad({8});
      const auto text = message_of<InvalidArgumentError>([&] {
        clip_grad_norm_({a, b}, 1, {.norm_type = norm_type, .error_if_nonfinite = true});
      });
      EXPECT_THAT(text, HasSubstr(std::isnan(bad) ? "is nan" : "is inf"));
      EXPECT_THAT(b.grad().to_vector(), ElementsAre(8));
      clip_grad_norm_({a, b}, 1, {.norm_type = norm_type});
      if (std::isnan(bad)) {
        EXPECT_TRUE(std::isnan(b.grad().item()));
      } else {
        EXPECT_EQ(b.grad().item(), 0);
      }
    }
  }
}

TEST(ClipGradNorm, RefusesNormsThatAreNone) {
  const Tensor param = with_grad({1});
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW(clip_grad_norm_({param}, bad), InvalidArgumentError);
    EXPECT_THROW(clip_grad_norm_({param}, 1, {.norm_type = bad}), InvalidArgumentError);
  }
}

TEST(ClipGradValue, BringsEveryElementIntoRange) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor a = with_grad({-3, -0.5, 0, 0.5, 3, kInfinity}, dtype);
    const Tensor b = with_grad({2}, dtype);
    clip_grad_value_({a, Tensor::zeros({1}), b}, 1);
    EXPECT_THAT(a.grad().to_vector(), ElementsAre(-1, -0.5, 0, 0.5, 1, 1));
    EXPECT_THAT(b.grad().to_vector(), ElementsAre(1));
  }
}

TEST(ClipGradValue, KeepsNaNAndReachesViews) {
  Tensor param = Tensor::zeros({2, 2}).requires_grad_();
  param.set_grad(Tensor::full({2, 2}, -7).t());
  param.grad().select(0, 0).select(0, 1).fill_(std::nan(""));
  clip_grad_value_({param}, 2);
  const std::vector<double> values = param.grad().to_vector();
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[0], -2);
  EXPECT_EQ(values[2], -2);
  EXPECT_THROW(clip_grad_value_({param}, -1), InvalidArgumentError);
  EXPECT_THROW(clip_grad_value_({param}, std::nan("")), InvalidArgumentError);
  clip_grad_value_({with_grad({5})}, 0);
}

}  // namespace
}  // namespace optim
}  // namespace hvd
