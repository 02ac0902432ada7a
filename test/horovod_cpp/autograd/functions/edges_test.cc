// Gradients at corners, NaN that shows, numbers that a dtype does not have, and names in errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsNan;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

V gradient_of(Tensor (*function)(const Tensor&), const Tensor& at) {
  const Tensor x = at.clone().requires_grad_();
  sum(function(x)).backward();
  return x.grad().to_vector();
}

TEST(Edges, RootsOfZeroHaveNoGradient) {
  const Tensor equal = values({3, 3, 3}, {1, 3});
  EXPECT_EQ(gradient_of([](const Tensor& x) { return std(x, {1}); }, equal), (V{0, 0, 0}));
  const auto half_norm = [](const Tensor& x) { return norm(x, 0.5); };
  EXPECT_EQ(gradient_of(half_norm, values({0, 4}, {2})), (V{0, 1}));
  EXPECT_EQ(gradient_of(half_norm, values({0, 0}, {2})), (V{0, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return norm(x, 1.5); }, values({0, 1}, {2})),
            (V{0, 1}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return std(x); }, values({1, 1, 1, 1}, {2, 2})),
            V(4, 0.0));
  for (const double p : {0.5, 1.5, 3.0}) {
    const auto power_norm = [p](const Inputs& in) { return norm(in[0], p, {1}); };
    gradcheck(power_norm, {leaf({2, 3}, 0.5, 1.5)});
    gradgradcheck(power_norm, {leaf({2, 3}, 0.5, 1.5)});
  }
}

TEST(Edges, TiesShareTheGradient) {
  const Tensor pair = values({3, 1, 3}, {3});
  EXPECT_EQ(gradient_of([](const Tensor& x) { return max(x); }, pair), (V{0.5, 0, 0.5}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return min(x); }, neg(pair)), (V{0.5, 0, 0.5}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return max(x); }, values({1, kNaN}, {2})), (V{0, 1}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return max(x, 0).values; }, pair), (V{1, 0, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return norm(x, kInfinity); },
                        values({-3, 3, 1, 0}, {2, 2})),
            (V{-0.5, 0.5, 0, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return norm(x, kInfinity, {1}); },
                        values({-3, 3, 1, 0}, {2, 2})),
            (V{-0.5, 0.5, 1, 0}));
}

TEST(Edges, NaNShows) {
  EXPECT_EQ(gradient_of(relu, values({kNaN, -1, 0, 1}, {4})), (V{1, 0, 0, 1}));
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16}) {
    const Tensor row = values({1, kInfinity, 2, 3}, {1, 4}).to(dtype);
    EXPECT_THAT(layer_norm(row, {4}).to_vector(), Each(IsNan()));
    EXPECT_THAT(group_norm(row, 1).to_vector(), Each(IsNan()));
  }
  Tensor mean = Tensor::zeros({1}), variance = Tensor::ones({1});
  batch_norm(Tensor::full({2, 1, 2, 2}, kNaN), Tensor::ones({1}), Tensor::zeros({1}), mean,
             variance, true);
  EXPECT_TRUE(std::isnan(variance.item()));
  EXPECT_TRUE(std::isnan(kl_div(values({kNaN}, {1}), values({0}, {1})).item()));
}

TEST(Edges, ATinyBetaOfSmoothL1LeavesTheSlopeOfAZero) {
  const Tensor a = Tensor::zeros({2}, DType::kF64).requires_grad_();
  smooth_l1_loss(a, Tensor::zeros({2}, DType::kF64), LossReduction::kSum, 1e-310).backward();
  EXPECT_EQ(a.grad().to_vector(), (std::vector<double>{0, 0}));
}

TEST(Edges, ProductsOfIntegersKeepTheirDtype) {
  for (const DType dtype : {DType::kI32, DType::kU8, DType::kI64, DType::kF32}) {
    const Tensor vector = Tensor::full({3}, 2, dtype);
    EXPECT_EQ(dot(vector, vector).dtype(), dtype);
    EXPECT_EQ(dot(vector, vector).item(), 12);
  }
}

TEST(Edges, IntegersTakeWholeNumbersExactly) {
  const std::string refused = "the number 0.500000 is not a int64";
  const Tensor x = Tensor::ones({2}, DType::kI64);
  EXPECT_EQ(error_of([&] { x.detach().mul_(0.5); }), refused);
  EXPECT_EQ(error_of([&] { x.detach().add_(x, 0.5); }), refused);
  EXPECT_EQ(error_of([&] { x.detach().sub_(x, 0.5); }), "the number -0.500000 is not a int64");
  EXPECT_EQ(error_of([&] { index_add(x, 0, integers({0, 1}, {2}), x, 0.5); }), refused);
  EXPECT_EQ(error_of([&] { masked_fill(x, eq(x, 1), 0.5); }), refused);
  EXPECT_EQ(x.to_vector(), V(2, 1));
  const std::int64_t large = (std::int64_t{1} << 60) + 1;  // a double does not hold it
  Tensor exact = integers({large}, {1});
  EXPECT_TRUE(bitwise_equal(exact.mul_(3.0), integers({3 * large}, {1})));
  EXPECT_EQ(Tensor::full({}, 1 << 30, DType::kI32).mul_(4.0).item(), 0);  // modulo 2^32
  EXPECT_EQ(Tensor::full({}, 5, DType::kU8).sub_(Tensor::full({}, 2, DType::kU8)).item(), 3);
  const Tensor complex = Tensor::zeros({}, DType::kC64);
  EXPECT_EQ(
      masked_fill(complex, Tensor::ones({}, DType::kBool), 0.5).data<std::complex<float>>()[0],
      0.5f);
}

TEST(Edges, HalfTypesAreReducedInFloat32) {
  const auto halves = [](V numbers, DType dtype) {
    const auto count = std::ssize(numbers);
    return values(std::move(numbers), {count}).to(dtype);
  };
  EXPECT_EQ(mean(Tensor::ones({70000}, DType::kF16)).item(), 1);
  EXPECT_EQ(norm(Tensor::full({400}, 300, DType::kF16)).item(), 6000);
  EXPECT_EQ(norm(Tensor::full({400}, 300, DType::kF16), 3.0, {}).dtype(), DType::kF16);
  EXPECT_EQ(std(halves({400, -400}, DType::kF16), {}, 0).item(), 400);
  EXPECT_EQ(var(halves({1000, 1004}, DType::kBF16), {}, 0).item(), 4);
  EXPECT_EQ(std(halves({1000, 1004}, DType::kBF16), {}, 0).item(), 2);
  const Tensor x = halves({400, -400}, DType::kF16).requires_grad_();
  std(x, {}, 0).backward();
  EXPECT_EQ(x.grad().to_vector(), (V{0.5, -0.5}));
}

TEST(Edges, SpreadsOfFloat32NeitherOverflowNorLoseDigits) {
  EXPECT_EQ(var(values({1e7 + 1, 1e7 + 2, 1e7 + 3}, {3}).to(DType::kF32)).item(), 1);
  const Tensor far = values({0x1p70, -0x1p70}, {2}).to(DType::kF32);
  EXPECT_EQ(std(far, {}, 0).item(), 0x1p70);
  EXPECT_EQ(std(far).dtype(), DType::kF32);
}

TEST(Edges, IntegersCompareWithNumbersThatTheyCannotBe) {
  for (const DType dtype : {DType::kI64, DType::kU8, DType::kBool}) {
    const Tensor x = integers({0, 1}, {2}).to(dtype);
    EXPECT_EQ(lt(x, 0.5).to_vector(), (V{1, 0}));
    EXPECT_EQ(le(x, kInfinity).to_vector(), (V{1, 1}));
    EXPECT_EQ(eq(x, kNaN).to_vector(), (V{0, 0}));
    EXPECT_EQ(gt(x, -1).to_vector(), (V{1, 1}));
    EXPECT_EQ(ne(x, 1e30).to_vector(), (V{1, 1}));
    EXPECT_EQ(ge(x, 1).to_vector(), (V{0, 1}));
  }
}

TEST(Edges, ComplexNumbersAreTrueUnlessTheyAreZero) {
  const Tensor x = Tensor::zeros({2}, DType::kC64);
  x.data<std::complex<float>>()[1] = {0, 1};
  EXPECT_EQ(logical_not(x).to_vector(), (V{1, 0}));
  EXPECT_EQ(any(x).item(), 1);
  EXPECT_EQ(all(x).item(), 0);
}

TEST(Edges, AdaptivePoolingKeepsAnExtent) {
  const Tensor images = leaf({1, 2, 5, 6});
  EXPECT_TRUE(bitwise_equal(adaptive_avg_pool2d(images, {kInputExtent, 2}),
                            adaptive_avg_pool2d(images, {5, 2})));
  EXPECT_TRUE(bitwise_equal(adaptive_avg_pool2d(images, kInputExtent), images));
}

TEST(Edges, ErrorsNameTheFunctionThatWasCalled) {
  const Tensor x = Tensor::ones({2, 2}, DType::kI32);
  EXPECT_THAT(error_of([&] { all(x, {5}); }), HasSubstr("all: axis 5"));
  EXPECT_THAT(error_of([&] { argsort(x, 5); }), HasSubstr("argsort: axis 5"));
  EXPECT_THAT(error_of([&] { sort(x, 5); }), HasSubstr("sort: axis 5"));
  EXPECT_THAT(error_of([&] { cat({x}, 5); }), HasSubstr("cat: axis 5"));
  EXPECT_THAT(error_of([&] { stack({}, 0); }), HasSubstr("stack: no tensors"));
  EXPECT_THAT(error_of([&] { matmul(x, x); }), HasSubstr("matmul: takes a floating dtype"));
  EXPECT_THAT(error_of([&] { linear(x, x); }), HasSubstr("linear: takes a floating dtype"));
}

}  // namespace
}  // namespace hvd
