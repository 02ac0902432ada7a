// Tensors in the place of numbers: exponents, bounds and fill values that learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(NumberTensors, ExponentsBroadcastAndHaveGradients) {
  const auto power = [](const Inputs& in) { return pow(in[0], in[1]); };
  gradcheck(power, {leaf({2, 3}, 0.5, 2), leaf({}, 0.5, 2, 2)});
  gradgradcheck(power, {leaf({2, 3}, 0.5, 2), leaf({3}, 0.5, 2, 2)});
  EXPECT_EQ(pow(values({-2, 3}, {2}), integers({3, 2}, {2})).to_vector(), (V{-8, 9}));
  EXPECT_EQ(pow(values({2}, {1}), values({3}, {})).to_vector(),
            pow(values({2}, {1}), 3).to_vector());
  EXPECT_EQ(pow(Tensor::full({2}, 3, DType::kBF16), Tensor::full({}, 2)).dtype(), DType::kBF16);
}

TEST(NumberTensors, PowersOfZeroHaveTheSlopesOfTheNumberForm) {
  const Tensor base = values({0, 0, 2}, {3}).requires_grad_();
  const Tensor exponent = values({0, 2, 0}, {3}).requires_grad_();
  sum(pow(base, exponent)).backward();
  EXPECT_EQ(base.grad().to_vector(), (V{0, 0, 0}));
  EXPECT_EQ(exponent.grad().to_vector(), (V{0, 0, std::log(2.0)}));
}

TEST(NumberTensors, BoundsOfClampHaveGradients) {
  const Tensor x = values({-3, 0, 1, 5, kNaN}, {5}).requires_grad_();
  const Tensor low = values({0}, {1}).requires_grad_(), high = values({2}, {}).requires_grad_();
  const Tensor result = clamp(x, low, high);
  const std::vector<double> found = result.to_vector();
  EXPECT_EQ(V(found.begin(), found.end() - 1), (V{0, 0, 1, 2}));
  EXPECT_TRUE(std::isnan(found[4]));
  result.backward(values({1, 2, 4, 8, 16}, {5}));
  EXPECT_EQ(x.grad().to_vector(), (V{0, 2, 4, 0, 16}));
  EXPECT_EQ(low.grad().to_vector(), (V{1}));
  EXPECT_EQ(high.grad().to_vector(), (V{8}));
  EXPECT_EQ(clamp(integers({1, 9}, {2}), Tensor(), Tensor::scalar(4, DType::kI32)).to_vector(),
            (V{1, 4}));
  EXPECT_TRUE(std::isnan(clamp(values({1}, {1}), values({kNaN}, {}), Tensor()).item()));
  EXPECT_THAT(error_of([&] { clamp(integers({1}, {1}), Tensor::scalar(0.5), Tensor()); }),
              AllOf(HasSubstr("float32"), HasSubstr("int64")));
}

TEST(NumberTensors, FillValuesHaveGradients) {
  const Tensor x = leaf({3}), value = values({7}, {1}).requires_grad_();
  const Tensor mask = bools({1, 0, 1}, {3});
  masked_fill(x, mask, value).backward(values({1, 2, 4}, {3}));
  EXPECT_EQ(x.grad().to_vector(), (V{0, 2, 0}));
  EXPECT_EQ(value.grad().to_vector(), (V{5}));
  EXPECT_THAT(error_of([&] { masked_fill(x, mask, x); }),
              AllOf(HasSubstr("masked_fill"), HasSubstr("[3]")));
}

}  // namespace
}  // namespace hvd
