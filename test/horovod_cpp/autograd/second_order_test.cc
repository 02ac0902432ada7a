#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/function.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::HasSubstr;

struct OtherwiseRecorded : Function<OtherwiseRecorded> {
  static constexpr const char* kName = "OtherwiseRecorded";
  static Tensor forward(AutogradContext&, const Tensor& x) { return x * 3.0; }
  static std::vector<Tensor> backward(AutogradContext&, const Tensor& gradient) {
    return {gradient * (grad_enabled() ? 6.0 : 3.0)};
  }
};

using Call = std::function<Tensor(const Inputs&)>;

void check(const Call& function, const Inputs& inputs) {
  gradcheck(function, inputs);
  gradgradcheck(function, inputs);
}

TEST(SecondOrder, OfElementwiseFunctions) {
  const Inputs any = {leaf({2, 3})};
  const Inputs positive = {leaf({2, 3}, 0.5, 2.0)};
  check([](const Inputs& x) { return exp(x[0]); }, any);
  check([](const Inputs& x) { return tanh(x[0]); }, any);
  check([](const Inputs& x) { return sigmoid(x[0]); }, any);
  check([](const Inputs& x) { return relu(x[0]); }, any);
  check([](const Inputs& x) { return sin(x[0]); }, any);
  check([](const Inputs& x) { return cos(x[0]); }, any);
  check([](const Inputs& x) { return erf(x[0]); }, any);
  check([](const Inputs& x) { return square(x[0]); }, any);
  check([](const Inputs& x) { return abs(x[0]) * x[0]; }, any);
  check([](const Inputs& x) { return sign(x[0]) * x[0]; }, any);
  check([](const Inputs& x) { return clamp(x[0], -0.4, 0.4) * x[0]; }, any);
  check([](const Inputs& x) { return pow(x[0], 3.0); }, any);
  check([](const Inputs& x) { return log(x[0]); }, positive);
  check([](const Inputs& x) { return sqrt(x[0]); }, positive);
  check([](const Inputs& x) { return log1p(x[0]); }, positive);
  check([](const Inputs& x) { return rsqrt(x[0]); }, positive);
  check([](const Inputs& x) { return reciprocal(x[0]); }, positive);
}

TEST(SecondOrder, OfCombinations) {
  const Inputs pair = {leaf({2, 3}), leaf({3}, 0.5, 2.0, 2)};
  check([](const Inputs& x) { return x[0] * x[1] - x[1]; }, pair);
  check([](const Inputs& x) { return x[0] / x[1]; }, pair);
  check([](const Inputs& x) { return maximum(x[0], x[1]) * x[0]; }, pair);
  check([](const Inputs& x) { return minimum(x[0], x[1] * 0.1) * x[0]; }, pair);
  check([](const Inputs& x) { return where(x[0] > 0.0, x[0] * x[1], x[1] * x[1]); }, pair);
  check([](const Inputs& x) { return masked_fill(x[0] * x[0], x[0] > 0.0, 3.0); }, pair);
}

TEST(SecondOrder, OfReductions) {
  const Inputs any = {leaf({2, 3})};
  check([](const Inputs& x) { return square(sum(x[0], {1})); }, any);
  check([](const Inputs& x) { return square(mean(x[0], {0}, true)); }, any);
  check([](const Inputs& x) { return var(x[0], {1}); }, any);
  check([](const Inputs& x) { return std(x[0]); }, any);
  check([](const Inputs& x) { return norm(x[0], 2.0, {1}); }, any);
  check([](const Inputs& x) { return norm(x[0], 3.0); }, any);
  check([](const Inputs& x) { return square(cumsum(x[0], 0)); }, any);
  check([](const Inputs& x) { return square(max(x[0], 1).values); }, any);
  check([](const Inputs& x) { return square(sort(x[0], 1).values); }, any);
  check([](const Inputs& x) { return softmax(x[0], 1); }, any);
  check([](const Inputs& x) { return log_softmax(x[0], 0) * x[0]; }, any);
}

TEST(SecondOrder, OfProductsOfMatrices) {
  check([](const Inputs& x) { return matmul(x[0], x[1]); }, {leaf({2, 3}), leaf({3, 2}, -1, 1, 2)});
  check([](const Inputs& x) { return matmul(x[0], x[1]); },
        {leaf({2, 2, 3}), leaf({3, 2}, -1, 1, 2)});
  check([](const Inputs& x) { return tanh(linear(x[0], x[1], x[2])); },
        {leaf({2, 3}), leaf({2, 3}, -1, 1, 2), leaf({2})});
}

TEST(SecondOrder, OfViewsAndMovements) {
  const Inputs any = {leaf({3, 4})};
  const Tensor index = integers({2, 0, 2}, {3});
  check([](const Inputs& x) { return square(x[0].slice(1, 0, 4, 2).t().reshape({6})); }, any);
  check([](const Inputs& x) { return square(x[0].select(0, 1).expand({2, 4})); }, any);
  check(
      [](const Inputs& x) {
        return square(concat({x[0], x[0].flatten().reshape({3, 4})}, 0));
      },
      any);
  check([&](const Inputs& x) { return square(index_select(x[0], 0, index)); }, any);
  check([&](const Inputs& x) { return square(hvd::index(x[0], {Tensor(), index})); }, any);
  check([](const Inputs& x) { return square(tril(x[0]) + flip(x[0], {1})); }, any);
  check([](const Inputs& x) { return square(repeat(x[0], {2, 1, 2})); }, any);
}

TEST(SecondOrder, LeavesGradientsThatHaveAGraph) {
  Tensor x = values({3}, {}).requires_grad_();
  (x * x * x).backward({}, false, true);
  EXPECT_EQ(x.grad().item(), 27);
  const Tensor second = grad({x.grad()}, {x})[0];
  EXPECT_EQ(second.item(), 18);
  x.set_grad({});  // it holds the graph, which holds x
}

TEST(SecondOrder, AddsToAGradientWithoutWritingIntoIt) {
  Tensor x = values({3}, {}).requires_grad_();
  const Tensor before = values({1}, {});
  x.set_grad(before);
  (x * x).backward({}, false, true);
  EXPECT_EQ(x.grad().item(), 7);
  EXPECT_EQ(before.item(), 1);
  x.set_grad({});
}

TEST(SecondOrder, IntoGivenMemoryIsRefusedBeforeAnythingChanged) {
  Tensor x = values({3}, {}).requires_grad_();
  Tensor memory = values({5}, {});
  set_grad_memory(x, memory);
  EXPECT_THAT(error_of([&] { (x * x).backward({}, false, true); }), HasSubstr("create_graph"));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(memory.item(), 5);
}

TEST(SecondOrder, SeesThatASavedResultWasModified) {
  Tensor x = leaf({2});
  Tensor y = exp(x);
  const Tensor first = grad({sum(y)}, {x}, {}, true, true)[0];
  y.detach().zero_();
  EXPECT_THAT(error_of([&] { sum(first).backward(); }), HasSubstr("exp"));
}

TEST(SecondOrder, GraphsAreFreedWithTheirResults) {
  Tensor x = leaf({2});
  std::weak_ptr<const void> held;
  {
    const Tensor y = tanh(x * 2.0);
    held = y.lease().owner;
    const Tensor first = grad({sum(y)}, {x}, {}, true, true)[0];
    EXPECT_FALSE(held.expired());
  }
  EXPECT_TRUE(held.expired());
}

TEST(Gradgradcheck, SeesAWrongSecondDerivative) {
  // detach() hides a path from the second derivative only: d(x^3)/dx = 3 x^2 with x^2 constant.
  const Call cube = [](const Inputs& x) {
    const Tensor y = x[0] * x[0].detach() * x[0].detach();
    return y * 3.0 - x[0].detach() * x[0].detach() * x[0].detach() * 2.0;
  };
  gradcheck(cube, {leaf({2})});
  EXPECT_THROW(gradgradcheck(cube, {leaf({2})}), InvalidArgumentError);
}

TEST(Gradgradcheck, SeesARecordedGradientThatIsNotTheOther) {
  const Call call = [](const Inputs& x) { return OtherwiseRecorded::apply(x[0]); };
  gradcheck(call, {leaf({2})});
  EXPECT_THAT(error_of([&] { gradgradcheck(call, {leaf({2})}); }), HasSubstr("with create_graph"));
}

}  // namespace
}  // namespace hvd
