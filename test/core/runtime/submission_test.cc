#include "core/runtime/submission.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/base/status.h"
#include "test/core/runtime/submissions.h"

namespace hvd::engine {
namespace {

using test::allgather;
using test::allreduce;
using test::broadcast;
using test::shared;

const SetMembers kTwo = {kWorldSet, {0, 1}};

// What check() says about it on rank 0 of a world of two ranks.
template <typename Class = InvalidArgumentError>
std::string complaint(const Submission& submission, const SetMembers& set = kTwo, Rank rank = 0) {
  try {
    check(submission, set, rank);
  } catch (const Class& error) {
    return error.what();
  }
  return "nothing";
}

TEST(CheckSubmission, AcceptsWhatFits) {
  const auto values = shared<float>({1, 2, 3, 4});
  EXPECT_EQ(complaint(allreduce("x", values)), "nothing");
  EXPECT_EQ(complaint(broadcast("x", values, 1)), "nothing");
  EXPECT_EQ(complaint(allgather("x", values, 2)), "nothing");
  EXPECT_EQ(complaint(allreduce("empty", shared<float>({}))), "nothing");
}

TEST(CheckSubmission, WantsAName) {
  EXPECT_NE(complaint(allreduce("", shared<float>({1}))), "nothing");
}

TEST(CheckSubmission, NamesTensorAndBothCounts) {
  Submission submission = allreduce("w", shared<float>({1, 2, 3}));
  submission.request.shapes = {{2, 2}};
  EXPECT_EQ(complaint(submission), "'w': the request has 4 elements, its input 3");
}

TEST(CheckSubmission, NamesBothDTypes) {
  Submission submission = allreduce("w", shared<float>({1}));
  submission.parts[0].output.view.dtype = DType::kF64;
  EXPECT_EQ(complaint(submission), "'w': the request says float32, its output is float64");
}

TEST(CheckSubmission, WantsMemoryOfTheRequestsDevice) {
  Submission submission = allreduce("w", shared<float>({1}));
  submission.parts[0].input.view.device.kind = DeviceKind::kCuda;
  EXPECT_NE(complaint(submission), "nothing");
  submission = allreduce("w", shared<float>({1}));
  submission.parts[0].input.view.data = nullptr;
  EXPECT_EQ(complaint(submission), "'w': its input has no memory");
}

TEST(CheckSubmission, RefusesPartialOverlap) {
  const auto values = shared<float>({1, 2, 3, 4});
  Submission submission = allreduce("w", values);
  submission.request.shapes = {{3}};
  submission.parts[0].input.view.numel = submission.parts[0].output.view.numel = 3;
  EXPECT_EQ(complaint(submission), "nothing");
  submission.parts[0].output.view.data = values->data() + 1;
  EXPECT_EQ(complaint(submission), "'w': input and output overlap without being the same memory");
}

TEST(CheckSubmission, RefusesARootOutsideTheProcessSet) {
  const auto values = shared<float>({1});
  EXPECT_EQ(complaint(broadcast("w", values, 2)),
            "'w': root rank 2 is not in process set 0, which has ranks 0 and 1");
  EXPECT_EQ(complaint(broadcast("w", values, -1)),
            "'w': root rank -1 is not in process set 0, which has ranks 0 and 1");
  EXPECT_EQ(complaint(broadcast("w", values, 1), {3, {0, 2}}),
            "'w': root rank 1 is not in process set 3, which has ranks 0 and 2");
  EXPECT_EQ(complaint(broadcast("w", values, 2), {3, {0, 2}}), "nothing");
}

TEST(CheckSubmission, RefusesARankOutsideTheProcessSet) {
  EXPECT_EQ(complaint(allreduce("w", shared<float>({1})), {3, {0, 2}}, 1),
            "'w': this rank, 1, is not in process set 3");
}

TEST(CheckSubmission, RefusesRowsThatDoNotFitOrOverflow) {
  Submission submission = allgather("w", shared<float>({1, 2, 3, 4}), 2);
  submission.parts[0].rows = 3;
  EXPECT_EQ(complaint(submission), "'w': the request has 6 elements, its input 4");
  submission.parts[0].rows = -1;
  EXPECT_EQ(complaint(submission), "'w': its first dimension is -1");
  submission.parts[0].rows = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(complaint(submission), "nothing");
}

TEST(CheckSubmission, WantsOnePartAShape) {
  Submission submission = allreduce("g", shared<float>({1}));
  submission.request.shapes.push_back({1});
  EXPECT_EQ(complaint(submission), "'g': it has 1 tensors and 2 shapes");
  submission.parts.clear();
  submission.request.shapes.clear();
  EXPECT_EQ(complaint(submission), "'g': it has 0 tensors and 0 shapes");
  EXPECT_EQ(complaint(test::barrier("b")), "nothing");
  submission = test::barrier("b");
  submission.parts.emplace_back();
  EXPECT_EQ(complaint(submission), "'b': it has 1 tensors and 0 shapes");
}

TEST(CheckSubmission, ChecksEveryTensorOfAGroup) {
  auto group = test::grouped_allreduce<float>("g", {shared<float>({1}), shared<float>({1, 2})});
  EXPECT_EQ(complaint(group), "nothing");
  group.request.shapes[1] = {3};
  EXPECT_EQ(complaint(group), "'g': the request has 3 elements, its input 2");
}

TEST(CheckSubmission, WantsOneSplitARankThatSumsToTheRows) {
  const auto values = shared<float>({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(complaint(test::alltoall("w", values, 2, {1, 2})), "nothing");
  EXPECT_EQ(complaint(test::alltoall("w", values, 2, {3})),
            "'w': it has 1 splits for a process set of 2 ranks");
  EXPECT_EQ(complaint(test::alltoall("w", values, 2, {1, 1})),
            "'w': the request has 4 elements, its input 6");
  EXPECT_EQ(complaint(test::alltoall("w", values, 2, {4, -1})), "'w': a split is -1");
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(complaint(test::alltoall("w", values, 2, {most, most})), "nothing");
}

TEST(CheckSubmission, OnlyTheRootScatters) {
  const auto values = shared<float>({1, 2});
  const auto none = shared<float>({});
  EXPECT_EQ(complaint(test::scatter("w", values, 1, 0, {1, 1})), "nothing");
  EXPECT_EQ(complaint(test::scatter("w", none, 1, 1, {})), "nothing");
  EXPECT_EQ(complaint(test::scatter("w", values, 1, 1, {1, 1})),
            "'w': only the root, rank 1, gives data");
  EXPECT_EQ(complaint(test::scatter("w", values, 1, 0, {})),
            "'w': it has 0 splits for a process set of 2 ranks");
}

TEST(CheckSubmission, WantsThisRanksShareOfAReducescatter) {
  const auto values = shared<float>({1, 2, 3, 4, 5, 6});
  const auto two_rows = shared<float>({0, 0, 0, 0});
  const auto one_row = shared<float>({0, 0});
  EXPECT_EQ(complaint(test::reducescatter("w", values, {3, 2}, two_rows)), "nothing");
  EXPECT_EQ(complaint(test::reducescatter("w", values, {3, 2}, one_row), kTwo, 1), "nothing");
  EXPECT_EQ(complaint(test::reducescatter("w", values, {3, 2}, one_row)),
            "'w': the request has 4 elements, its output 2");
  EXPECT_EQ(complaint(test::reducescatter("w", shared<float>({1}), {}, one_row)),
            "'w': a scalar has no first dimension to scatter");
}

TEST(CheckSubmission, OnlyTheRootOfAReduceNeedsAnOutput) {
  Submission submission = test::reduce("w", shared<float>({1}), 1);
  submission.parts[0].output = {};
  EXPECT_EQ(complaint(submission), "nothing");
  EXPECT_NE(complaint(submission, kTwo, 1), "nothing");
}

TEST(CheckSubmission, RefusesReductionsThatMeanNothing) {
  const auto values = shared<float>({1});
  EXPECT_EQ(complaint(allreduce("w", values, ReduceOp::kBitAnd)),
            "'w': reduction BitAnd is not defined for dtype float32");
  const auto output = shared<float>({1});
  EXPECT_EQ(
      complaint<UnsupportedError>(test::reducescatter("w", values, {1}, output, ReduceOp::kAdasum)),
      "'w': only an allreduce takes Adasum");
  EXPECT_EQ(complaint<UnsupportedError>(test::reducescatter(
                "w", shared<std::int32_t>({1}), {1}, shared<std::int32_t>({1}), ReduceOp::kAdasum)),
            "'w': only an allreduce takes Adasum");
  Submission reduced = test::reduce("w", values, 0);
  reduced.request.wire = WireFormat::kInt8;
  EXPECT_EQ(complaint(reduced), "'w': only an allreduce takes wire format int8");
}

TEST(CheckSubmission, RefusesScalesUnderWhichNothingIsNeutral) {
  const auto scaled = [](ReduceOp op, double prescale, double postscale) {
    Submission submission = allreduce("w", shared<float>({1}), op);
    submission.request.prescale = prescale;
    submission.request.postscale = postscale;
    return complaint(submission);
  };
  EXPECT_EQ(scaled(ReduceOp::kSum, -2, 0), "nothing");
  EXPECT_EQ(scaled(ReduceOp::kMin, 2, -1), "nothing");
  EXPECT_EQ(scaled(ReduceOp::kProduct, 1, 3), "nothing");
  EXPECT_EQ(scaled(ReduceOp::kMax, -1, 1),
            "'w': reduction Max cannot be prescaled by -1.000000; use the postscale");
  EXPECT_NE(scaled(ReduceOp::kProduct, 2, 1), "nothing");
  EXPECT_NE(scaled(ReduceOp::kSum, std::numeric_limits<double>::infinity(), 1), "nothing");
  EXPECT_NE(scaled(ReduceOp::kSum, 1, std::numeric_limits<double>::quiet_NaN()), "nothing");
}

TEST(CheckSubmission, WantsAResidualThatFitsALossyFormat) {
  const auto residual = shared<float>({0, 0});
  Submission submission = allreduce("w", shared<double>({1, 2}));
  submission.parts[0].residual = test::lease(residual);
  EXPECT_EQ(complaint(submission), "'w': it has a residual but no wire format that loses anything");
  submission.request.wire = WireFormat::kInt8;
  EXPECT_EQ(complaint(submission), "nothing");
  submission.parts[0].residual.view.numel = 1;
  EXPECT_EQ(complaint(submission),
            "'w': its residual must be float32 of 2 elements on the same device, not "
            "float32 of 1");
}

TEST(CheckSubmission, WantsAscendingRanksOfTheWorldForAProcessSet) {
  EXPECT_EQ(complaint(test::add_set("s", {0, 1})), "nothing");
  EXPECT_EQ(complaint(test::add_set("s", {})), "'s': a process set has at least one rank");
  EXPECT_EQ(complaint(test::add_set("s", {1, 0})), "'s': the ranks [1, 0] are not ascending");
  EXPECT_EQ(complaint(test::add_set("s", {1, 1})), "'s': the ranks [1, 1] are not ascending");
  EXPECT_EQ(complaint(test::add_set("s", {0, 2})), "'s': rank 2 is not in a world of 2");
  EXPECT_EQ(complaint(test::remove_set("s", 0)), "'s': the world cannot be removed");
  EXPECT_EQ(complaint(test::in_set(4, test::add_set("s", {0})), {4, {0, 1}}),
            "'s@4': process sets are added and removed by the world");
}

TEST(CheckTransfer, WantsAPeerOfTheWorldAndATag) {
  const auto values = shared<float>({1});
  const auto says = [](const PointToPoint& transfer) -> std::string {
    try {
      check(transfer, 2);
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(says(test::send(values, 1, 0)), "nothing");
  EXPECT_EQ(says(test::receive(values, 2, 0)), "receive: rank 2 is not in a world of 2");
  EXPECT_EQ(says(test::send(values, -1, 0)), "send: rank -1 is not in a world of 2");
  EXPECT_EQ(says(test::send(values, 1, -3)), "send: tag -3 is negative");
  PointToPoint without = test::send(values, 1, 0);
  without.tensor.view.data = nullptr;
  EXPECT_EQ(says(without), "send: a tensor of 1 elements has no memory");
}

TEST(ScatteredRows, GiveTheRemainderToTheFirstRanks) {
  EXPECT_EQ(scattered_rows(7, 3), (std::vector<std::int64_t>{3, 2, 2}));
  EXPECT_EQ(scattered_rows(2, 3), (std::vector<std::int64_t>{1, 1, 0}));
  EXPECT_EQ(scattered_rows(0, 2), (std::vector<std::int64_t>{0, 0}));
}

}  // namespace
}  // namespace hvd::engine
