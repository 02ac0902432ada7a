// Grouped calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Groups, OfSeveralDtypesAreReducedInOneCall) {
  for (const int size : {1, 2, 3}) {
    run_sets(size, [size](const ProcessSet& all) {
      const std::vector<Tensor> tensors = {Tensor::full({2}, 1), Tensor::full({1}, 2, DType::kI64),
                                           Tensor::full({3}, 3), Tensor::full({1}, 4, DType::kF64),
                                           Tensor::full({1}, 5, DType::kI64)};
      const std::vector<Tensor> sums =
          grouped_allreduce(tensors, {.op = ReduceOp::kSum, .process_set = all});
      ASSERT_EQ(sums.size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sums[i].dtype(), tensors[i].dtype());
        EXPECT_EQ(sums[i].shape(), tensors[i].shape());
        EXPECT_EQ(sums[i].to_vector()[0], static_cast<double>(i + 1) * size);
        EXPECT_EQ(tensors[i].to_vector()[0], static_cast<double>(i + 1));
      }
      grouped_allreduce_(tensors, {.op = ReduceOp::kSum, .name = "x", .process_set = all});
      EXPECT_EQ(tensors[3].item(), 4.0 * size);
    });
  }
}

TEST(Groups, OfEveryKindGiveWhatTheSingleCallsGive) {
  run_sets(2, [](const ProcessSet& all) {
    const double mine = all.rank() + 1;
    const std::vector<Tensor> tensors = {Tensor::full({2}, mine), Tensor::full({4}, 2 * mine)};
    const auto rows =
        grouped_allgather({tensors[0], Tensor::full({all.rank()}, mine)}, {.process_set = all});
    EXPECT_THAT(rows[0].to_vector(), ElementsAre(1, 1, 2, 2));
    EXPECT_THAT(rows[1].to_vector(), ElementsAre(2));
    const auto parts = grouped_reducescatter(tensors, {.op = ReduceOp::kSum, .process_set = all});
    EXPECT_THAT(parts[0].to_vector(), ElementsAre(3));
    EXPECT_THAT(parts[1].to_vector(), ElementsAre(6, 6));
    const auto copies = grouped_broadcast(tensors, 1, {.process_set = all});
    EXPECT_THAT(copies[1].to_vector(), ElementsAre(4, 4, 4, 4));
    grouped_broadcast_(tensors, 1, {.process_set = all});
    EXPECT_THAT(tensors[0].to_vector(), ElementsAre(2, 2));
  });
}

TEST(Groups, InPlaceOfTensorsThatShareMemoryAreRefused) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor a = Tensor::full({6}, 1);
    const Tensor b = Tensor::full({2}, 1);
    const auto complaint = [&](const std::vector<Tensor>& tensors) {
      return message_of<InvalidArgumentError>(
          [&] { grouped_allreduce_(tensors, {.op = ReduceOp::kSum, .process_set = all}); });
    };
    EXPECT_THAT(complaint({a, b, a}), HasSubstr("tensors 0 and 2 share memory"));
    EXPECT_THAT(complaint({a.slice(0, 2, 6), b, a.slice(0, 0, 4)}), HasSubstr("tensors 0 and 2"));
    grouped_allreduce_({a.slice(0, 3, 6), b, a.slice(0, 0, 3)},
                       {.op = ReduceOp::kSum, .process_set = all});
    EXPECT_THAT(a.to_vector(), ElementsAre(2, 2, 2, 2, 2, 2));
  });
}

TEST(Groups, AreReducedIntoGivenTensorsWhichMayBeTheirOwn) {
  run_sets(2, [](const ProcessSet& all) {
    const std::vector<Tensor> tensors = {Tensor::full({2}, 1), Tensor::full({3}, 2)};
    const std::vector<Tensor> outputs = {tensors[0], Tensor::full({3}, 0)};
    const AllreduceOptions options = {.op = ReduceOp::kSum, .process_set = all};
    const std::vector<Tensor> results =
        grouped_allreduce_into_async(outputs, tensors, options).synchronize();
    EXPECT_EQ(results[1].address(), outputs[1].address());
    EXPECT_THAT(outputs[0].to_vector(), ElementsAre(2, 2));
    EXPECT_THAT(outputs[1].to_vector(), ElementsAre(4, 4, 4));
    EXPECT_THAT(tensors[1].to_vector(), ElementsAre(2, 2, 2));

    const Tensor other[] = {Tensor::full({2}, 0), Tensor::full({3}, 0, DType::kF64),
                            Tensor::full({3, 3}, 0).t(), Tensor()};
    for (const Tensor& each : other) {
      EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                    grouped_allreduce_into_async({outputs[0], each}, tensors, options);
                  }),
                  HasSubstr("the outputs have to be"));
    }
    EXPECT_THROW(grouped_allreduce_into_async({outputs[0]}, tensors, options),
                 InvalidArgumentError);
    EXPECT_THAT(
        message_of<InvalidArgumentError>([&] {
          grouped_allreduce_into_async({outputs[1], outputs[1]}, {tensors[1], tensors[1]}, options);
        }),
        HasSubstr("share memory"));
  });
}

TEST(Groups, WithoutTensorsAreDone) {
  run_sets(2, [](const ProcessSet& all) {
    const GroupHandle handle = grouped_allreduce_async({}, {.process_set = all});
    EXPECT_TRUE(handle.poll());
    EXPECT_TRUE(handle.synchronize().empty());
  });
}

TEST(Groups, AreSubmittedWholeOrNotAtAll) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor good = Tensor::ones({2});
    const Tensor bad = Tensor::ones({2, 3}).t();
    EXPECT_THROW(grouped_allreduce({good, bad}, {.name = "x", .process_set = all}),
                 InvalidArgumentError);
    // The name is free again, and "x" of the other rank is not met by half a group.
    const auto sums =
        grouped_allreduce({good, good}, {.op = ReduceOp::kSum, .name = "x", .process_set = all});
    EXPECT_THAT(sums[1].to_vector(), ElementsAre(2, 2));
  });
}

TEST(Groups, ADifferentCompositionIsAMismatchOnEveryRank) {
  run_sets(2, [](const ProcessSet& all) {
    std::vector<Tensor> tensors = {Tensor::ones({2}), Tensor::ones({3})};
    if (all.rank() == 1) tensors.pop_back();
    EXPECT_THAT(message_of<MismatchError>(
                    [&] { grouped_allreduce(tensors, {.name = "x", .process_set = all}); }),
                HasSubstr("'x'"));
  });
}

TEST(Groups, OfOtherDtypesOnARankAreAMismatchOnEveryRank) {
  const std::vector<std::vector<DType>> others = {{DType::kF32, DType::kF32},
                                                  {DType::kF32, DType::kI32},
                                                  {DType::kF64, DType::kF32},
                                                  {DType::kF32},
                                                  {DType::kF32, DType::kF64, DType::kI64}};
  run_sets(2, [&](const ProcessSet& all) {
    for (const auto& dtypes : others) {
      std::vector<Tensor> tensors;
      for (const DType dtype : all.rank() == 0 ? std::vector{DType::kF32, DType::kF64} : dtypes) {
        tensors.push_back(Tensor::ones({3}).to(dtype));
      }
      for (const char* name : {"x", ""}) {
        EXPECT_THAT(message_of<MismatchError>(
                        [&] { grouped_allreduce(tensors, {.name = name, .process_set = all}); }),
                    HasSubstr("dtype"));
        EXPECT_THROW(grouped_allgather(tensors, {.name = name, .process_set = all}), MismatchError);
      }
      EXPECT_EQ(allreduce(Tensor::ones({1}), {.process_set = all}).item(), 1);
    }
  });
}

}  // namespace
}  // namespace hvd
