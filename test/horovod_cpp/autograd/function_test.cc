#include "horovod_cpp/autograd/function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct ScaledCube : Function<ScaledCube> {
  static constexpr const char* kName = "ScaledCube";
  static Tensor forward(AutogradContext& context, const Tensor& x, double factor) {
    EXPECT_FALSE(grad_enabled());
    context.save_for_backward({x});
    context.data = factor;
    return x * x * x * factor;
  }
  static std::vector<Tensor> backward(AutogradContext& context, const Tensor& gradient) {
    const Tensor x = context.saved_tensors()[0];
    return {gradient * x * x * (3.0 * std::any_cast<double>(context.data))};
  }
};

struct Exponential : Function<Exponential> {
  static constexpr const char* kName = "Exponential";
  static Tensor forward(AutogradContext& context, const Tensor& x) {
    const Tensor y = exp(x);
    context.save_for_backward({y});
    return y;
  }
  static std::vector<Tensor> backward(AutogradContext& context, const Tensor& gradient) {
    return {gradient * context.saved_tensors()[0]};
  }
};

struct TooFew : Function<TooFew> {
  static constexpr const char* kName = "TooFew";
  static Tensor forward(AutogradContext&, const Tensor& a, const Tensor& b) { return a + b; }
  static std::vector<Tensor> backward(AutogradContext&, const Tensor& gradient) {
    return {gradient};
  }
};

struct Identity : Function<Identity> {
  static constexpr const char* kName = "Identity";
  static Tensor forward(AutogradContext&, const Tensor& x) { return x; }
  static std::vector<Tensor> backward(AutogradContext&, const Tensor& gradient) {
    return {gradient * 5.0};
  }
};

struct Poison : Function<Poison> {
  static constexpr const char* kName = "Poison";
  static Tensor forward(AutogradContext&, const Tensor& x) { return x.clone(); }
  static std::vector<Tensor> backward(AutogradContext&, const Tensor& gradient) {
    return {gradient * std::nan("")};
  }
};

struct Misfit : Function<Misfit> {
  static constexpr const char* kName = "Misfit";
  static Tensor forward(AutogradContext& context, const Tensor&, const Tensor& x, Tensor given) {
    context.data = std::move(given);
    return x * 2.0;
  }
  static std::vector<Tensor> backward(AutogradContext& context, const Tensor&) {
    const Tensor given = std::any_cast<Tensor>(context.data);
    return {given, given, {}};
  }
};

TEST(Function, IsDifferentiatedByItsBackward) {
  const auto cube = [](const Inputs& x) { return ScaledCube::apply(x[0], 2.0); };
  gradcheck(cube, {leaf({3})});
  gradgradcheck(cube, {leaf({3})});
  gradgradcheck([](const Inputs& x) { return Exponential::apply(x[0]); }, {leaf({3})});
}

TEST(Function, RecordsNothingThatNeedsNoGradient) {
  EXPECT_FALSE(ScaledCube::apply(values({1}, {}), 2.0).requires_grad());
  const NoGradGuard guard;
  EXPECT_FALSE(ScaledCube::apply(leaf({2}), 2.0).requires_grad());
}

TEST(Function, ThatGivesItsOperandLeavesThatAlone) {
  Tensor x = values({2}, {}).requires_grad_();
  const Tensor y = Identity::apply(x);
  EXPECT_TRUE(x.is_leaf());
  y.backward();
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(Function, NamesItselfInErrors) {
  Tensor x = leaf({2});
  Tensor constant = values({1, 2}, {2});
  const Tensor wrong = TooFew::apply(x, constant);
  EXPECT_THAT(error_of([&] { sum(wrong).backward(); }), AllOf(HasSubstr("TooFew"), HasSubstr("2")));
  const Tensor y = Exponential::apply(x);
  y.detach().zero_();
  EXPECT_THAT(error_of([&] { sum(y).backward(); }), HasSubstr("Exponential"));
}

TEST(Function, GivesGradientsOfTheShapeAndDtypeOfItsInputs) {
  const Tensor constant = leaf({2, 2}).detach();  // whose gradient is not looked at
  const Tensor x = leaf({3});
  const auto refused = [&](const Tensor& input, const Tensor& given) {
    const Tensor y = sum(Misfit::apply(constant, input, given));
    const std::string message = error_of([&] { y.backward(); });
    EXPECT_EQ(message, error_of([&] { grad({sum(Misfit::apply(constant, input, given))}, {x}); }));
    EXPECT_FALSE(x.grad().defined());
    return message;
  };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{2, 3}}) {  // smaller and larger
    EXPECT_EQ(refused(x, Tensor::zeros(shape, DType::kF64)),
              "backward of Misfit gave a gradient " + to_string(shape) +
                  " float64 for input 1, which is [3] float64");
  }
  EXPECT_THAT(refused(x * 2.0, Tensor::zeros({3})), HasSubstr("[3] float32 for input 1"));
  sum(Misfit::apply(constant, x, Tensor::ones({3}, DType::kF64))).backward();
  EXPECT_EQ(x.grad().to_vector(), V(3, 1.0));
}

TEST(Anomaly, NamesTheFirstOperationThatGivesANaN) {
  Tensor x = leaf({2});
  const Tensor y = sum(exp(Poison::apply(x * 2.0)) * 3.0);
  const DetectAnomalyGuard guard;
  EXPECT_THAT(error_of([&] { y.backward(); }), AllOf(HasSubstr("Poison"), HasSubstr("NaN")));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Anomaly, IsOffUnlessAskedFor) {
  Tensor x = leaf({2});
  EXPECT_FALSE(anomaly_enabled());
  sum(Poison::apply(x)).backward();
  EXPECT_TRUE(std::isnan(x.grad().to_vector()[0]));
  {
    const DetectAnomalyGuard guard;
    EXPECT_TRUE(anomaly_enabled());
  }
  EXPECT_FALSE(anomaly_enabled());
}

TEST(GradMode, NestsAndComesBack) {
  Tensor x = leaf({2});
  {
    const NoGradGuard off;
    {
      const EnableGradGuard on;
      EXPECT_TRUE((x * 2.0).requires_grad());
    }
    EXPECT_FALSE((x * 2.0).requires_grad());
    const AutoGradMode on(true);
    EXPECT_TRUE((x * 2.0).requires_grad());
  }
  set_grad_enabled(false);
  EXPECT_FALSE((x * 2.0).requires_grad());
  set_grad_enabled(true);
  EXPECT_TRUE((x * 2.0).requires_grad());
}

TEST(InPlace, IsRecordedOnResults) {
  gradcheck(
      [](const Inputs& x) {
        Tensor y = x[0] * 2.0;
        y.add_(x[1], 3.0).mul_(0.5);
        y.mul_(x[1]);
        y.div_(x[1] + 4.0);
        return y.sub_(x[1]);
      },
      {leaf({2, 3}), leaf({3}, -1, 1, 2)});
  gradgradcheck(
      [](const Inputs& x) {
        Tensor y = x[0] + 1.0;
        y.mul_(x[0]);
        return y.mul_(y);
      },
      {leaf({3})});
}

TEST(InPlace, GivesAPlainTensorAGraph) {
  Tensor x = values({2, 3}, {2}).requires_grad_();
  Tensor total = Tensor::zeros({2}, DType::kF64);
  for (int i = 0; i < 3; ++i) total.add_(x);
  sum(total).backward();
  EXPECT_EQ(x.grad().to_vector(), V(2, 3.0));
}

TEST(InPlace, OverwritingCutsTheOldGraphOff) {
  Tensor x = values({2}, {1}).requires_grad_();
  Tensor z = values({5}, {1}).requires_grad_();
  Tensor y = x * 3.0;
  y.copy_(z);
  Tensor w = x * 4.0;
  w.zero_();
  sum(y + w).backward();
  EXPECT_EQ(z.grad().item(), 1);
  EXPECT_TRUE(!x.grad().defined() || x.grad().item() == 0);
}

TEST(InPlace, OnALeafThatRequiresGradIsRefused) {
  Tensor x = leaf({2});
  EXPECT_THAT(error_of([&] {
                x.add_(values({1, 2}, {2}));
              }),
              AllOf(HasSubstr("add_"), HasSubstr("leaf")));
  EXPECT_THAT(error_of([&] { x.fill_(1); }), AllOf(HasSubstr("fill_"), HasSubstr("leaf")));
  const NoGradGuard guard;
  EXPECT_NO_THROW(x.fill_(1));
}

TEST(InPlace, OnSharedMemoryIsRefused) {
  Tensor x = leaf({2, 2});
  Tensor y = exp(x);  // its backward needs y
  EXPECT_THAT(error_of([&] { y.mul_(2.0); }), AllOf(HasSubstr("mul_"), HasSubstr("shares")));
  Tensor base = x * 2.0;
  Tensor row = base.select(0, 0);
  EXPECT_THAT(error_of([&] { row.zero_(); }), AllOf(HasSubstr("zero_"), HasSubstr("view")));
  Tensor integer = Tensor::arange(2);
  EXPECT_THAT(error_of([&] { integer.copy_(x.select(0, 0)); }), HasSubstr("dtype"));
}

TEST(InPlace, OfAValueThatBackwardNeedsIsSeen) {
  Tensor x = leaf({2});
  Tensor factor = values({1, 2}, {2});
  const Tensor y = x * factor;
  factor.mul_(2.0);
  EXPECT_THAT(error_of([&] { sum(y).backward(); }), AllOf(HasSubstr("mul"), HasSubstr("in place")));
}

}  // namespace
}  // namespace hvd
