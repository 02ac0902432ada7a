// allreduce, reduce and reducescatter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Allreduce, GivesEveryRankTheReductionAndLeavesTheInput) {
  for (const int size : {1, 2, 3, 4}) {
    run_sets(size, [size](const ProcessSet& all) {
      const Tensor input = Tensor::full({2, 2}, all.rank() + 1);
      const Tensor sum = allreduce(input, {.op = ReduceOp::kSum, .name = "x", .process_set = all});
      const double expected = size * (size + 1) / 2;
      EXPECT_THAT(sum.to_vector(), ElementsAre(expected, expected, expected, expected));
      EXPECT_EQ(input.to_vector()[0], all.rank() + 1);
    });
  }
}

TEST(Allreduce, InPlaceOverwritesTheTensor) {
  run_sets(3, [](const ProcessSet& all) {
    Tensor value = Tensor::full({3}, all.rank());
    const Tensor result =
        allreduce_async_(value, {.op = ReduceOp::kMax, .process_set = all}).synchronize();
    EXPECT_TRUE(result.is(value));
    EXPECT_THAT(value.to_vector(), ElementsAre(2, 2, 2));
  });
}

TEST(Allreduce, ServesEveryDtype) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    run_sets(3, [dtype](const ProcessSet& all) {
      Tensor value = Tensor::zeros({2}, dtype);
      const bool complex = is_complex(dtype);
      if (!complex) value = Tensor::full({2}, all.rank() == 1 ? 1 : 0, dtype);
      if (dtype == DType::kC64) value.data<std::complex<float>>()[0] = {2, 1};
      if (dtype == DType::kC128) value.data<std::complex<double>>()[0] = {2, 1};
      const Tensor sum = allreduce(value, {.op = ReduceOp::kSum, .process_set = all});
      EXPECT_EQ(sum.dtype(), dtype);
      if (dtype == DType::kC64) {
        EXPECT_EQ(sum.data<std::complex<float>>()[0], (std::complex<float>{6, 3}));
      } else if (dtype == DType::kC128) {
        EXPECT_EQ(sum.data<std::complex<double>>()[0], (std::complex<double>{6, 3}));
      } else {
        EXPECT_THAT(sum.to_vector(), ElementsAre(1, 1)) << name_of(dtype);
      }
    });
  }
}

TEST(Allreduce, AveragesIntegersTruncatedAndRefusesToAverageBools) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor value = Tensor::scalar(all.rank() == 0 ? 4 : 3, DType::kI64);
    EXPECT_EQ(allreduce(value, {.process_set = all}).item(), 3);
    const Tensor flags = Tensor::ones({2}, DType::kBool);
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { allreduce(flags, {.process_set = all}); }),
                HasSubstr("bool"));
  });
}

TEST(Allreduce, ScalesBeforeAndAfter) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor value = Tensor::full({2}, 4);
    const Tensor result =
        allreduce(value, {.op = ReduceOp::kProduct, .postscale_factor = 0.25, .process_set = all});
    EXPECT_THAT(result.to_vector(), ElementsAre(4, 4));
    const Tensor sum = allreduce(
        value,
        {.op = ReduceOp::kSum, .prescale_factor = 0.5, .postscale_factor = 8, .process_set = all});
    EXPECT_THAT(sum.to_vector(), ElementsAre(32, 32));
  });
}

TEST(Reduce, GivesTheRootTheReductionAndOthersNothing) {
  for (const int size : {1, 2, 3, 4}) {
    run_sets(size, [size](const ProcessSet& all) {
      const int root = size - 1;
      const Tensor mine = Tensor::full({2}, 1 << all.rank());
      const Tensor sum = reduce(mine, root, {.op = ReduceOp::kSum, .process_set = all});
      EXPECT_EQ(sum.defined(), all.rank() == root);
      if (all.rank() != root) return;
      const double expected = (1 << size) - 1;
      EXPECT_THAT(sum.to_vector(), ElementsAre(expected, expected));
    });
  }
}

TEST(Reducescatter, GivesTheFirstRanksTheRowsThatAreLeftOver) {
  run_sets(3, [](const ProcessSet& all) {
    const Tensor rows = Tensor::arange(10, DType::kI32).reshape({5, 2});
    const Tensor mine = reducescatter(rows, {.op = ReduceOp::kSum, .process_set = all});
    if (all.rank() == 0) {
      EXPECT_THAT(mine.to_vector(), ElementsAre(0, 3, 6, 9));
    }
    if (all.rank() == 1) {
      EXPECT_THAT(mine.to_vector(), ElementsAre(12, 15, 18, 21));
    }
    if (all.rank() == 2) {
      EXPECT_THAT(mine.to_vector(), ElementsAre(24, 27));
    }
    EXPECT_EQ(mine.shape(), (Shape{all.rank() == 2 ? 1 : 2, 2}));
  });
}

TEST(Reducescatter, KnowsEveryOrderedOpAndScales) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor mine = Tensor::full({2}, all.rank() + 2);
    EXPECT_EQ(reducescatter(mine, {.op = ReduceOp::kMin, .process_set = all}).item(), 2);
    EXPECT_EQ(reducescatter(mine, {.op = ReduceOp::kMax, .process_set = all}).item(), 3);
    EXPECT_EQ(reducescatter(mine, {.op = ReduceOp::kProduct, .process_set = all}).item(), 6);
    EXPECT_EQ(reducescatter(mine, {.postscale_factor = 2, .process_set = all}).item(), 5);
  });
}

TEST(Reductions, MistakesOfOneRankAreThrownAtTheCallWithTheValues) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor a = Tensor::ones({2, 3});
    const auto complaint = [&](const auto& call) { return message_of<InvalidArgumentError>(call); };
    EXPECT_THAT(complaint([&] { allreduce(a.t(), {.name = "x", .process_set = all}); }),
                HasSubstr("allreduce.x: the tensor of shape [3, 2] is not contiguous"));
    EXPECT_THAT(complaint([&] { allreduce(Tensor(), {.process_set = all}); }),
                HasSubstr("undefined"));
    EXPECT_THAT(complaint([&] { reduce(a, 2, {.process_set = all}); }), HasSubstr("root rank 2"));
    EXPECT_THAT(complaint([&] { reducescatter(Tensor::scalar(1), {.process_set = all}); }),
                HasSubstr("scalar"));
    EXPECT_THAT(message_of<UnsupportedError>(
                    [&] { reducescatter(a, {.op = ReduceOp::kAdasum, .process_set = all}); }),
                HasSubstr("only an allreduce takes Adasum"));
    EXPECT_THAT(
        complaint([&] {
          allreduce(a,
                    {.op = ReduceOp::kMax, .compression = Compression::fp16(), .process_set = all});
        }),
        HasSubstr("compression fp16 works with Average and Sum, not with Max"));
  });
}

TEST(Reductions, UnnamedCallsMeetInOrderAndACallThatFailedDoesNotCount) {
  run_sets(2, [](const ProcessSet& all) {
    if (all.rank() == 1) {
      EXPECT_THROW(allreduce(Tensor::ones({2, 3}).t(), {.process_set = all}), InvalidArgumentError);
      EXPECT_THROW(allreduce(Tensor::ones({2}, DType::kBool), {.process_set = all}),
                   InvalidArgumentError);
    }
    std::vector<CollectiveHandle> handles;
    for (int i = 0; i < 20; ++i) {
      handles.push_back(
          allreduce_async(Tensor::full({1}, i), {.op = ReduceOp::kSum, .process_set = all}));
    }
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(handles[static_cast<std::size_t>(i)].synchronize().item(), 2 * i);
    }
  });
}

TEST(Reductions, KindsHaveNamesOfTheirOwn) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor a = Tensor::ones({2});
    const auto first = allreduce_async(a, {.op = ReduceOp::kSum, .name = "x", .process_set = all});
    const auto second = broadcast_async(a, 0, {.name = "x", .process_set = all});
    const auto third =
        reducescatter_async(a, {.op = ReduceOp::kSum, .name = "x", .process_set = all});
    EXPECT_EQ(synchronize(first).to_vector()[0], 2);
    EXPECT_EQ(synchronize(second).to_vector()[0], 1);
    EXPECT_EQ(synchronize(third).item(), 2);
  });
}

TEST(Collectives, OfDifferentKindsUnderANameForAllKindsAreAMismatch) {
  run_sets(2, [](const ProcessSet& all) {
    const std::string error = message_of<MismatchError>([&] {
      if (all.rank() == 0) {
        allreduce(Tensor::ones({2}), {.name = "/step", .process_set = all});
      } else {
        broadcast(Tensor::ones({2}), 0, {.name = "/step", .process_set = all});
      }
    });
    EXPECT_THAT(error, HasSubstr("'step'"));
    EXPECT_THAT(error, HasSubstr("allreduce"));
    EXPECT_THAT(error, HasSubstr("broadcast"));
    // The name serves another kind afterwards.
    EXPECT_THAT(allgather(Tensor::ones({1}), {.name = "/step", .process_set = all}).to_vector(),
                ElementsAre(1, 1));
    EXPECT_THAT(
        allreduce(Tensor::ones({1}), {.op = ReduceOp::kSum, .name = "/step", .process_set = all})
            .to_vector(),
        ElementsAre(2));
  });
}

TEST(Reductions, ADisagreementIsTheSameErrorOnEveryRankAndTheJobGoesOn) {
  run_sets(3, [](const ProcessSet& all) {
    const Tensor value = Tensor::ones({all.rank() == 2 ? 5 : 4});
    const std::string error =
        message_of<MismatchError>([&] { allreduce(value, {.name = "x", .process_set = all}); });
    EXPECT_THAT(error, HasSubstr("'x' (allreduce)"));
    EXPECT_THAT(error, HasSubstr("[4]"));
    EXPECT_THAT(error, HasSubstr("[5]"));
    EXPECT_THAT(error, HasSubstr("rank 2"));
    const Tensor again = Tensor::ones({2});
    EXPECT_THAT(
        allreduce(again, {.op = ReduceOp::kSum, .name = "x", .process_set = all}).to_vector(),
        ElementsAre(3, 3));
  });
}

TEST(Reductions, AnInPlaceResultCountsAsAWriteForAutograd) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor weight = Tensor::ones({2});
    weight.requires_grad_();
    const Tensor other = Tensor::ones({2});
    const Tensor loss = weight * other;  // keeps `other` for backward
    allreduce_(other, {.process_set = all});
    EXPECT_THROW(loss.backward(Tensor::ones({2})), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace hvd
