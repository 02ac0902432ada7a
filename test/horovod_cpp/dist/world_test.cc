#include "horovod_cpp/dist/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/horovod_cpp/dist/worlds.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(World, AllreduceGivesEveryRankTheReductionAndLeavesTheInput) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const Tensor input = Tensor::full({2, 2}, world->topology().rank + 1);
    const Tensor output = Tensor::empty({2, 2});
    const Tensor sum = world->allreduce_async(input, output, ReduceOp::kSum, "x").synchronize();
    EXPECT_TRUE(sum.is(output));
    EXPECT_THAT(sum.to_vector(), ElementsAre(6, 6, 6, 6));
    EXPECT_EQ(input.to_vector()[0], world->topology().rank + 1);
  });
}

TEST(World, AverageOfIntegersIsTruncated) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor value = Tensor::scalar(world->topology().rank == 0 ? 4 : 3, DType::kI64);
    world->allreduce_async(value, value, ReduceOp::kAverage, "x").synchronize();
    EXPECT_EQ(value.item(), 3);
  });
}

TEST(World, AllgatherConcatenatesFirstAxesOfDifferentExtent) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const int rank = world->topology().rank;
    const Tensor mine = Tensor::full({rank, 2}, rank, DType::kI32);
    const Tensor all = world->allgather_async(mine, "rows").synchronize();
    EXPECT_EQ(all.shape(), (Shape{3, 2}));
    EXPECT_EQ(all.dtype(), DType::kI32);
    EXPECT_THAT(all.to_vector(), ElementsAre(1, 1, 2, 2, 2, 2));
  });
}

TEST(World, BroadcastGivesTheRootsValues) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor value = Tensor::full({3}, world->topology().rank, DType::kF64);
    world->broadcast_async(value, value, 1, "x").synchronize();
    EXPECT_THAT(value.to_vector(), ElementsAre(1, 1, 1));
  });
}

TEST(World, KindsHaveNamesOfTheirOwn) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor a = Tensor::ones({2});
    Tensor b = Tensor::ones({2});
    const auto first = world->allreduce_async(a, a, ReduceOp::kSum, "x");
    const auto second = world->broadcast_async(b, b, 0, "x");
    EXPECT_EQ(first.synchronize().to_vector()[0], 2);
    EXPECT_EQ(second.synchronize().to_vector()[0], 1);
  });
}

TEST(World, UnnamedCallsMeetInOrder) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    std::vector<Tensor> tensors;
    std::vector<CollectiveHandle> handles;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(Tensor::full({1}, i));
      handles.push_back(world->allreduce_async(tensors.back(), tensors.back(), ReduceOp::kSum, ""));
    }
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(handles[static_cast<std::size_t>(i)].synchronize().item(), 2 * i);
    }
  });
}

template <typename Call>
std::string invalid_argument_of(Call&& call) {
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(World, MistakesOfOneRankAreThrownAtTheCallWithTheValues) {
  run_worlds(2, [](const std::shared_ptr<World>& world) {
    Tensor a = Tensor::ones({2, 3});
    Tensor wrong = Tensor::ones({3, 2});
    EXPECT_THAT(invalid_argument_of([&] { world->allreduce_async(a, wrong, ReduceOp::kSum, "x"); }),
                HasSubstr("[3, 2]"));
    EXPECT_THAT(invalid_argument_of([&] { world->broadcast_async(a, a, 2, "x"); }),
                HasSubstr("root rank 2"));
    EXPECT_THAT(invalid_argument_of([&] { world->allgather_async(Tensor::scalar(1), "x"); }),
                HasSubstr("scalar"));
    EXPECT_THAT(invalid_argument_of([&] { world->allgather_async(Tensor(), "x"); }),
                HasSubstr("undefined"));
    const Tensor transposed = a.t();
    EXPECT_THAT(invalid_argument_of(
                    [&] { world->allreduce_async(transposed, transposed, ReduceOp::kSum, "x"); }),
                HasSubstr("contiguous"));
  });
}

TEST(World, ADisagreementIsTheSameErrorOnEveryRankAndTheJobGoesOn) {
  run_worlds(3, [](const std::shared_ptr<World>& world) {
    const bool odd_one = world->topology().rank == 2;
    Tensor value = Tensor::ones({odd_one ? 5 : 4});
    try {
      world->allreduce_async(value, value, ReduceOp::kSum, "x").synchronize();
      ADD_FAILURE() << "ranks disagreed and nothing was thrown";
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("allreduce.x"));
      EXPECT_THAT(error.what(), HasSubstr("[4]"));
      EXPECT_THAT(error.what(), HasSubstr("[5]"));
      EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    }
    Tensor again = Tensor::ones({4});
    world->allreduce_async(again, again, ReduceOp::kSum, "x").synchronize();
    EXPECT_THAT(again.to_vector(), ElementsAre(3, 3, 3, 3));
  });
}

}  // namespace
}  // namespace hvd
