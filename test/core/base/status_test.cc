#include "core/base/status.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

template <typename E>
void expect_throws(StatusCode code) {
  const Status status(code, "rank 2 said so");
  try {
    status.throw_if_error();
    FAIL() << "nothing was thrown for " << name_of(code);
  } catch (const E& error) {
    EXPECT_STREQ(error.what(), "rank 2 said so");
    EXPECT_EQ(error.status(), status);
  }
}

TEST(Status, OkThrowsNothing) {
  EXPECT_NO_THROW(Status().throw_if_error());
}

TEST(Status, EveryCodeThrowsTheClassOfTheTable) {
  expect_throws<InvalidArgumentError>(StatusCode::kInvalidArgument);
  expect_throws<MismatchError>(StatusCode::kMismatch);
  expect_throws<StalledError>(StatusCode::kStalled);
  expect_throws<PeerLostError>(StatusCode::kTransport);
  expect_throws<AbortedError>(StatusCode::kAborted);
  expect_throws<UnsupportedError>(StatusCode::kUnsupported);
  expect_throws<InternalError>(StatusCode::kInternal);
}

TEST(Status, OnlyWhatElasticTrainingMayRecoverFromIsAHorovodInternalError) {
  EXPECT_THROW(Status(StatusCode::kStalled, "").throw_if_error(), HorovodInternalError);
  EXPECT_THROW(Status(StatusCode::kTransport, "").throw_if_error(), HorovodInternalError);
  EXPECT_THROW(Status(StatusCode::kAborted, "").throw_if_error(), HorovodInternalError);
  try {
    Status(StatusCode::kMismatch, "").throw_if_error();
  } catch (const HorovodInternalError&) {
    FAIL() << "a user's mistake is not recoverable";
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace hvd
