#include "horovod_cpp/autograd/engine/engine.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using V = std::vector<double>;

Tensor parameter(double value, Shape shape = {}) {
  return Tensor::full(std::move(shape), value).requires_grad_();
}

std::string error_of(const std::function<void()>& call) {
  return message_of<InvalidArgumentError>(call);
}

TEST(Backward, AddsUpOverPathsAndCalls) {
  Tensor x = parameter(3);
  (x * x + x).backward();
  EXPECT_EQ(x.grad().item(), 7);
  (x * 2.0).backward();
  EXPECT_EQ(x.grad().item(), 9);
}

TEST(Backward, AccumulatesIntoTheGradientsOwnMemory) {
  Tensor x = parameter(1, {2});
  auto buffer = std::make_shared<std::vector<float>>(std::initializer_list<float>{10, 20});
  x.set_grad(Tensor::wrap(buffer->data(), {2}, DType::kF32, buffer));
  sum(x * 3.0).backward();
  EXPECT_EQ(*buffer, (std::vector<float>{13, 23}));
}

TEST(Backward, GivesLeavesGradientsThatShareNoMemory) {
  Tensor a = parameter(1, {2});
  Tensor b = parameter(1, {2});
  const Tensor start = Tensor::ones({2});
  add(a, b).backward(start);
  a.grad().fill_(5);
  EXPECT_EQ(b.grad().to_vector(), V(2, 1.0));
  EXPECT_EQ(start.to_vector(), V(2, 1.0));
}

TEST(Backward, OnALeafAddsTheGiven) {
  Tensor x = parameter(1, {2});
  x.backward(Tensor::full({2}, 4));
  EXPECT_EQ(x.grad().to_vector(), V(2, 4.0));
}

TEST(Backward, IgnoresWhatDoesNotRequireGrad) {
  Tensor x = parameter(2);
  const Tensor constant = Tensor::scalar(5);
  (x * constant).backward();
  EXPECT_EQ(x.grad().item(), 5);
  EXPECT_FALSE(constant.grad().defined());
}

TEST(Backward, NeedsAGradientUnlessScalar) {
  Tensor x = parameter(1, {3});
  EXPECT_NE(error_of([&] { (x * 2.0).backward(); }).find("[3]"), std::string::npos);
  EXPECT_NE(error_of([&] { (x * 2.0).backward(Tensor::ones({2})); }).find("[2]"),
            std::string::npos);
  EXPECT_THROW((x * 2.0).backward(Tensor::ones({3}, DType::kF64)), InvalidArgumentError);
}

TEST(Backward, NeedsAGraph) {
  EXPECT_NE(error_of([] { Tensor::ones({}).backward(); }).find("does not require grad"),
            std::string::npos);
}

TEST(Backward, TwiceNeedsTheGraphRetained) {
  Tensor x = parameter(3);
  const Tensor y = x * x;
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
  const std::string error = error_of([&] { y.backward(); });
  EXPECT_NE(error.find("mul"), std::string::npos) << error;
  EXPECT_NE(error.find("freed"), std::string::npos) << error;
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Backward, ThroughAPartThatWasFreedChangesNothing) {
  Tensor x = parameter(3);
  Tensor w = parameter(1);
  const Tensor trunk = x * x;
  (trunk * 2.0).backward();
  EXPECT_THROW((trunk * w).backward(), InvalidArgumentError);
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Backward, FreesWhatWasSaved) {
  Tensor x = parameter(3, {2});
  Tensor big = Tensor::ones({2});
  const Tensor y = sum(x * big);
  const long held = big.lease().owner.use_count();
  y.backward();
  EXPECT_LT(big.lease().owner.use_count(), held);
}

TEST(Backward, SeesThatASavedTensorWasModified) {
  Tensor x = parameter(3, {2});
  Tensor factor = Tensor::ones({2});
  const Tensor y = sum(x * factor);
  factor.slice(0, 0, 1).fill_(7);  // through a view
  const std::string error = error_of([&] { y.backward(); });
  EXPECT_NE(error.find("mul"), std::string::npos) << error;
  EXPECT_NE(error.find("in place"), std::string::npos) << error;
}

TEST(Backward, SeesThatASavedResultWasModified) {
  Tensor x = parameter(1, {2});
  Tensor y = exp(x);
  Tensor hidden = y.detach();
  hidden.zero_();
  EXPECT_NE(error_of([&] { sum(y).backward(); }).find("exp"), std::string::npos);
}

TEST(Backward, DoesNotMindChangesToWhatItDoesNotNeed) {
  Tensor x = parameter(3, {2});
  Tensor offset = Tensor::ones({2});
  const Tensor y = sum(x + offset);
  offset.fill_(7);
  y.backward();
  EXPECT_EQ(x.grad().to_vector(), V(2, 1.0));
}

TEST(Backward, AndDestructionNeedLittleStackForDeepGraphs) {
  // A thread has 8 MiB of stack; a recursion of 200,000 levels would need more.
  Tensor x = parameter(1);
  {
    Tensor y = x;
    for (int i = 0; i < 200000; ++i) y = y * 1.0;
    y.backward();
    EXPECT_EQ(x.grad().item(), 1);
  }
  Tensor dropped = x;
  for (int i = 0; i < 200000; ++i) dropped = exp(dropped * 0.0);
}

TEST(Backward, RunsEachOperationOnceInADiamond) {
  // Without dependency counts this would take 2^60 steps.
  Tensor x = parameter(1);
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Backward, IsDeterministic) {
  const auto run = [] {
    manual_seed(3);
    Tensor w = randn({8, 3, 3, 3}).requires_grad_();
    const Tensor x = randn({4, 3, 9, 9});
    sum(tanh(conv2d(x, w, {}, 1, 1)) * 0.1).backward();
    return w.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(), run()));
}

TEST(Hook, FiresWhenTheGradientIsCompleteWhileBackwardGoesOn) {
  Tensor first = parameter(2);
  Tensor last = parameter(3);
  std::vector<std::string> order;
  last.register_hook([&](const Tensor& leaf) {
    order.push_back("last " + std::to_string(static_cast<int>(leaf.grad().item())));
    EXPECT_FALSE(first.grad().defined());  // the rest of backward is still to come
  });
  first.register_hook([&](const Tensor& leaf) {
    order.push_back("first " + std::to_string(static_cast<int>(leaf.grad().item())));
  });
  (exp(first * 0.0) * last).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"last 1", "first 0"}));
}

TEST(Hook, WaitsForEveryUseOfAParameter) {
  Tensor shared = parameter(2);
  int calls = 0;
  shared.register_hook([&](const Tensor& leaf) {
    ++calls;
    EXPECT_EQ(leaf.grad().item(), 12);  // d(x^3)
  });
  (shared * shared * shared).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hook, SeveralRunInOrderAndCanBeRemoved) {
  Tensor x = parameter(1);
  std::string log;
  auto remove_a = x.register_hook([&](const Tensor&) { log += "a"; });
  x.register_hook([&](const Tensor&) { log += "b"; });
  (x * 1.0).backward();
  remove_a();
  remove_a();
  (x * 1.0).backward();
  EXPECT_EQ(log, "abb");
}

TEST(Hook, MayRemoveItself) {
  Tensor x = parameter(1);
  int calls = 0;
  std::function<void()> remove;
  remove = x.register_hook([&](const Tensor&) {
    ++calls;
    remove();
  });
  (x * 1.0).backward();
  (x * 1.0).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Hook, SeesTheLeafItself) {
  Tensor x = parameter(1);
  x.register_hook([&](const Tensor& leaf) { EXPECT_TRUE(leaf.is(x)); });
  (x * 1.0).backward();
}

TEST(Hook, ThrowingEndsBackward) {
  Tensor x = parameter(1);
  x.register_hook([](const Tensor&) { throw InternalError("from the hook"); });
  EXPECT_THROW((x * 1.0).backward(), InternalError);
}

TEST(Hook, RunsWithoutRecording) {
  Tensor x = parameter(1);
  x.register_hook([](const Tensor&) { EXPECT_FALSE(grad_enabled()); });
  (x * 1.0).backward();
  EXPECT_TRUE(grad_enabled());
}

TEST(Hook, IsForLeavesThatRequireGrad) {
  Tensor x = parameter(1);
  const auto nothing = [](const Tensor&) {};
  EXPECT_THROW((x * 1.0).register_hook(nothing), InvalidArgumentError);
  EXPECT_THROW(Tensor::ones({}).register_hook(nothing), InvalidArgumentError);
}

TEST(NoGrad, RecordsNothing) {
  Tensor x = parameter(1);
  const NoGradGuard guard;
  const Tensor y = x * 2.0;
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
}

TEST(RequiresGrad, IsForFloatingLeaves) {
  EXPECT_THROW(Tensor::arange(3).requires_grad_(), InvalidArgumentError);
  Tensor x = parameter(1);
  Tensor y = x * 2.0;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_THROW(y.requires_grad_(false), InvalidArgumentError);
  EXPECT_FALSE(y.detach().requires_grad());
  x.requires_grad_(false);
  EXPECT_FALSE((x * 2.0).requires_grad());
}

TEST(SetGrad, RefusesAnotherShapeOrDtype) {
  Tensor x = parameter(1, {2});
  EXPECT_THROW(x.set_grad(Tensor::ones({3})), InvalidArgumentError);
  EXPECT_THROW(x.set_grad(Tensor::ones({2}, DType::kF64)), InvalidArgumentError);
  x.set_grad(Tensor::ones({2}));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(InPlace, WithinNoGradIsNotRecorded) {
  Tensor x = parameter(1, {2});
  EXPECT_THROW(x.zero_(), InvalidArgumentError);
  const NoGradGuard guard;
  x.add_(Tensor::ones({2}), 2.0);
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(x.to_vector(), V(2, 3.0));
}

TEST(Grad, ReturnsGradientsAndLeavesLeavesAlone) {
  Tensor x = parameter(3);
  Tensor unused = parameter(1);
  int calls = 0;
  x.register_hook([&](const Tensor&) { ++calls; });
  const Tensor middle = x * x;
  const std::vector<Tensor> result = grad({middle * 2.0}, {x, middle, unused});
  EXPECT_EQ(result[0].item(), 12);
  EXPECT_EQ(result[1].item(), 2);
  EXPECT_FALSE(result[2].defined());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(calls, 0);
}

TEST(Grad, AddsUpOverOutputs) {
  Tensor x = parameter(3, {2});
  const auto result = grad({x * 2.0, sum(x)}, {x}, {Tensor::full({2}, 10), Tensor()});
  EXPECT_EQ(result[0].to_vector(), V(2, 21.0));
}

TEST(Grad, OfAnOutputByItselfIsOne) {
  Tensor x = parameter(3);
  const Tensor y = x * 2.0;
  EXPECT_EQ(grad({y}, {y})[0].item(), 1);
}

TEST(Grad, RefusesInputsWithoutAGraph) {
  Tensor x = parameter(3);
  EXPECT_THROW(grad({x * 2.0}, {Tensor::ones({})}), InvalidArgumentError);
  EXPECT_THROW(grad({x * 2.0}, {x}, {Tensor(), Tensor()}), InvalidArgumentError);
  EXPECT_THROW(grad({Tensor()}, {x}), InvalidArgumentError);
}

TEST(Threads, BuildAndRunGraphsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&results, i] {
      for (int round = 0; round < 50; ++round) {
        Tensor x = parameter(static_cast<double>(i), {64});
        mean(x * x).backward();
        results[i] = sum(x.grad()).item();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, (V{0, 2, 4, 6}));
}

}  // namespace
}  // namespace hvd
