#include "core/runtime/submission.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/base/status.h"
#include "test/core/runtime/sim_ranks.h"

namespace hvd {
namespace {

using test::allgather;
using test::allreduce;
using test::broadcast;
using test::shared;

// What check() says about it in a world of two ranks.
std::string complaint(const Submission& submission) {
  try {
    check(submission, 2);
  } catch (const InvalidArgumentError& error) {
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
  submission.request.shape = {2, 2};
  EXPECT_EQ(complaint(submission), "tensor 'w': the request has 4 elements, its input 3");
}

TEST(CheckSubmission, NamesBothDTypes) {
  Submission submission = allreduce("w", shared<float>({1}));
  submission.output.view.dtype = DType::kF64;
  EXPECT_EQ(complaint(submission), "tensor 'w': the request says float32, its output is float64");
}

TEST(CheckSubmission, WantsMemoryOfTheRequestsDevice) {
  Submission submission = allreduce("w", shared<float>({1}));
  submission.input.view.device.kind = DeviceKind::kCuda;
  EXPECT_NE(complaint(submission), "nothing");
  submission = allreduce("w", shared<float>({1}));
  submission.input.view.data = nullptr;
  EXPECT_EQ(complaint(submission), "tensor 'w': its input has no memory");
}

TEST(CheckSubmission, RefusesPartialOverlap) {
  const auto values = shared<float>({1, 2, 3, 4});
  Submission submission = allreduce("w", values);
  submission.request.shape = {3};
  submission.input.view.numel = submission.output.view.numel = 3;
  EXPECT_EQ(complaint(submission), "nothing");
  submission.output.view.data = values->data() + 1;
  EXPECT_EQ(complaint(submission),
            "tensor 'w': input and output overlap without being the same memory");
}

TEST(CheckSubmission, RefusesARootOutsideTheWorld) {
  const auto values = shared<float>({1});
  EXPECT_EQ(complaint(broadcast("w", values, 2)), "tensor 'w': root rank 2 is not in a world of 2");
  EXPECT_EQ(complaint(broadcast("w", values, -1)),
            "tensor 'w': root rank -1 is not in a world of 2");
}

TEST(CheckSubmission, RefusesRowsThatDoNotFitOrOverflow) {
  Submission submission = allgather("w", shared<float>({1, 2, 3, 4}), 2);
  submission.rows = 3;
  EXPECT_EQ(complaint(submission), "tensor 'w': the request has 6 elements, its input 4");
  submission.rows = -1;
  EXPECT_EQ(complaint(submission), "tensor 'w': its first dimension is -1");
  submission.rows = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(complaint(submission), "nothing");
}

}  // namespace
}  // namespace hvd
