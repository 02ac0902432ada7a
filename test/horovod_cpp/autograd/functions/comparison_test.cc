
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr DType kReal[] = {DType::kU8,  DType::kI32, DType::kI64, DType::kF16, DType::kBF16,
                           DType::kF32, DType::kF64, DType::kI8,  DType::kU16, DType::kI16};

TEST(Comparison, GivesBoolForEveryRealDtype) {
  for (const DType dtype : kReal) {
    const Tensor a = values({1, 2, 3, 2}, {2, 2}).to(dtype);
    const Tensor b = values({2, 2}, {2}).to(dtype);
    EXPECT_EQ(eq(a, b).dtype(), DType::kBool);
    EXPECT_EQ(eq(a, b).to_vector(), (V{0, 1, 0, 1})) << name_of(dtype);
    EXPECT_EQ(ne(a, b).to_vector(), (V{1, 0, 1, 0})) << name_of(dtype);
    EXPECT_EQ((a < b).to_vector(), (V{1, 0, 0, 0})) << name_of(dtype);
    EXPECT_EQ((a <= b).to_vector(), (V{1, 1, 0, 1})) << name_of(dtype);
    EXPECT_EQ((a > b).to_vector(), (V{0, 0, 1, 0})) << name_of(dtype);
    EXPECT_EQ((a >= b).to_vector(), (V{0, 1, 1, 1})) << name_of(dtype);
    EXPECT_EQ((a.t() > b.reshape({2, 1})).to_vector(), (V{0, 1, 0, 0})) << name_of(dtype);
  }
  EXPECT_EQ(eq(bools({1, 0}, {2}), bools({1, 1}, {2})).to_vector(), (V{1, 0}));
}

TEST(Comparison, TakesNumbers) {
  EXPECT_EQ((values({-1, 0.5, 2}, {3}) > 0.5).to_vector(), (V{0, 0, 1}));
  EXPECT_EQ((Tensor::arange(3) >= 1.0).to_vector(), (V{0, 1, 1}));
  EXPECT_EQ((Tensor::arange(3) > 0.5).to_vector(), (V{0, 1, 1}));
}

TEST(Comparison, FindsANaNUnequalToAll) {
  const Tensor a = values({std::nan(""), 1}, {2});
  EXPECT_EQ(eq(a, a).to_vector(), (V{0, 1}));
  EXPECT_EQ(ne(a, a).to_vector(), (V{1, 0}));
  EXPECT_EQ((a <= a).to_vector(), (V{0, 1}));
  EXPECT_EQ(isnan(a).to_vector(), (V{1, 0}));
}

TEST(Comparison, RefusesMixedDtypesAndOrdersOfComplexNumbers) {
  EXPECT_THAT(error_of([] { eq(Tensor::ones({1}), Tensor::arange(1)); }),
              AllOf(HasSubstr("eq"), HasSubstr("float32"), HasSubstr("int64")));
  const Tensor z = Tensor::ones({1}, DType::kC64);
  EXPECT_EQ(eq(z, z).item(), 1);
  EXPECT_THAT(error_of([&] { lt(z, z); }), HasSubstr("complex"));
}

TEST(Logical, TakesWhatIsNotZeroForTrue) {
  const Tensor a = values({0, 0.5, 0, -2}, {4});
  const Tensor b = integers({0, 0, 7, 1}, {4});
  EXPECT_EQ(logical_and(a, b).to_vector(), (V{0, 0, 0, 1}));
  EXPECT_EQ(logical_or(a, b).to_vector(), (V{0, 1, 1, 1}));
  EXPECT_EQ(logical_xor(a, b).to_vector(), (V{0, 1, 1, 0}));
  EXPECT_EQ(logical_not(a).to_vector(), (V{1, 0, 1, 0}));
}

TEST(AnyAll, ReduceAlongAxes) {
  const Tensor a = bools({1, 0, 0, 1, 1, 0}, {3, 2});
  EXPECT_EQ(any(a).item(), 1);
  EXPECT_EQ(all(a).item(), 0);
  EXPECT_EQ(any(a, {1}).to_vector(), (V{1, 1, 1}));
  EXPECT_EQ(all(a, {0}, true).shape(), (Shape{1, 2}));
  EXPECT_EQ(all(values({1, 2, 0, 4}, {2, 2}), {1}).to_vector(), (V{1, 0}));
  EXPECT_EQ(all(Tensor::ones({0})).item(), 1);
  EXPECT_EQ(any(Tensor::ones({0})).item(), 0);
}

TEST(Bool, AddsMultipliesAndCounts) {
  const Tensor a = bools({1, 1, 0, 0}, {4});
  const Tensor b = bools({1, 0, 1, 0}, {4});
  EXPECT_EQ((a + b).to_vector(), (V{1, 1, 1, 0}));
  EXPECT_EQ((a * b).to_vector(), (V{1, 0, 0, 0}));
  EXPECT_EQ(sum(a).item(), 2);
  EXPECT_EQ(sum(a).dtype(), DType::kI64);
  EXPECT_EQ(cumsum(a, 0).to_vector(), (V{1, 2, 2, 2}));
  EXPECT_EQ(prod(a).item(), 0);
  EXPECT_THAT(error_of([&] { a - b; }), AllOf(HasSubstr("sub"), HasSubstr("bool")));
}

TEST(Where, ChoosesAndBroadcastsInAnyDtype) {
  const Tensor condition = bools({1, 0}, {2, 1});
  for (const DType dtype : kReal) {
    const Tensor chosen = where(condition, Tensor::ones({}, dtype), values({2, 3}, {2}).to(dtype));
    EXPECT_EQ(chosen.to_vector(), (V{1, 1, 2, 3})) << name_of(dtype);
  }
  EXPECT_THAT(error_of([] { where(Tensor::ones({1}), Tensor::ones({1}), Tensor::ones({1})); }),
              HasSubstr("bool"));
}

TEST(Where, GivesNoGradientToWhatWasNotChosen) {
  Tensor x = values({0, 4}, {2}).requires_grad_();
  sum(where(x > 0.0, sqrt(where(x > 0.0, x, Tensor::ones({}, DType::kF64))), x)).backward();
  EXPECT_EQ(x.grad().to_vector(), (V{1, 0.25}));
}

TEST(MaskedFill, KeepsTheShape) {
  EXPECT_EQ(masked_fill(Tensor::arange(3), bools({1}, {1}), 7).to_vector(), V(3, 7.0));
  EXPECT_THAT(error_of([] {
                masked_fill(Tensor::arange(1), bools({1, 1}, {2}), 7);
              }),
              HasSubstr("[2]"));
}

TEST(Extremes, ShareTheGradientOfTiesAndKeepNaN) {
  Tensor a = values({1, 2, 3}, {3}).requires_grad_();
  Tensor b = values({1, 5, 0}, {3}).requires_grad_();
  sum(maximum(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector(), (V{0.5, 0, 1}));
  EXPECT_EQ(b.grad().to_vector(), (V{0.5, 1, 0}));
  const Tensor nan = values({std::nan("")}, {1});
  EXPECT_TRUE(std::isnan(maximum(nan, values({1}, {1})).item()));
  EXPECT_TRUE(std::isnan(minimum(values({1}, {1}), nan).item()));
  EXPECT_EQ(maximum(Tensor::arange(3), Tensor::ones({}, DType::kI64)).to_vector(), (V{1, 1, 2}));
}

TEST(Elementwise, OfIntegers) {
  const Tensor a = integers({-2, 0, 3}, {3});
  EXPECT_EQ(abs(a).to_vector(), (V{2, 0, 3}));
  EXPECT_EQ(sign(a).to_vector(), (V{-1, 0, 1}));
  EXPECT_EQ(square(a).to_vector(), (V{4, 0, 9}));
  EXPECT_EQ(clamp(a, -1, 2).to_vector(), (V{-1, 0, 2}));
  EXPECT_EQ(abs(a.to(DType::kI32)).dtype(), DType::kI32);
  EXPECT_EQ(abs(Tensor::full({1}, 200, DType::kU8)).item(), 200);
  EXPECT_THAT(error_of([&] { sin(a); }), AllOf(HasSubstr("sin"), HasSubstr("int64")));
  EXPECT_THAT(error_of([&] { clamp(a, {}); }), HasSubstr("clamp"));
}

TEST(Elementwise, OfHalfTypesComputesInFloat) {
  const Tensor a = values({-1.5, 0.25}, {2}).to(DType::kBF16);
  EXPECT_EQ(abs(a).to_vector(), (V{1.5, 0.25}));
  EXPECT_EQ(abs(a).dtype(), DType::kBF16);
  EXPECT_EQ(reciprocal(values({4}, {1}).to(DType::kF16)).item(), 0.25);
  EXPECT_EQ(sum(values({1, 2, 3}, {3}).to(DType::kF16)).item(), 6);
}

}  // namespace
}  // namespace hvd
