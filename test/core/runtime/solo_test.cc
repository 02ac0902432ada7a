// A world of one rank.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/coordinator.h"
#include "core/runtime/runtime.h"
#include "ops/self/self_backend.h"
#include "test/core/runtime/submissions.h"
#include "test/support/threads.h"

namespace hvd::engine {
namespace {

using test::shared;

using Floats = std::vector<float>;

class SoloRank : public testing::Test {
 protected:
  explicit SoloRank(const Config& config = {}) {
    std::vector<std::unique_ptr<Collective>> collectives;
    collectives.push_back(std::make_unique<SelfCollective>());
    runtime = std::make_unique<Runtime>(std::make_unique<SelfControlPlane>("here"),
                                        std::move(collectives), config);
  }
  // Done at once, until something had to wait.
  Outcome run(Submission submission) {
    const Handle handle = runtime->submit(std::move(submission));
    EXPECT_TRUE(handle.done());
    return handle.wait();
  }

  std::unique_ptr<Runtime> runtime;
};

TEST_F(SoloRank, RunsEveryKindAtOnce) {
  const auto values = shared<float>({1, 2, 3, 4});
  auto scaled = test::grouped_allreduce<float>("group", {values, shared<float>({5})});
  scaled.request.prescale = 3;
  scaled.request.postscale = 2;
  run(std::move(scaled));
  EXPECT_EQ(*values, (Floats{6, 12, 18, 24}));
  run(test::broadcast("broadcast", values, 0));
  EXPECT_EQ(test::gathered<float>(run(test::allgather("allgather", values, 2))), *values);
  EXPECT_EQ(test::gathered<float>(run(test::gather("gather", values, 2, 0))), *values);
  EXPECT_EQ(test::gathered<float>(run(test::alltoall("alltoall", values, 2, {2}))), *values);
  const Outcome scattered = run(test::scatter("scatter", values, 2, 0, {2}));
  EXPECT_EQ(test::gathered<float>(scattered), *values);
  EXPECT_EQ(test::rows_of(scattered), (std::vector<std::int64_t>{2}));
  const auto output = shared<float>({0, 0, 0, 0});
  run(test::reducescatter("reducescatter", values, {2, 2}, output));
  EXPECT_EQ(*output, *values);
  run(test::reduce("reduce", values, 0, ReduceOp::kAverage));
  EXPECT_EQ(*values, (Floats{6, 12, 18, 24}));
  run(test::barrier("barrier"));
  EXPECT_EQ(run(test::join("join")).number, 0);
}

TEST_F(SoloRank, HasProcessSetsOfItself) {
  const auto set = static_cast<ProcessSetId>(run(test::add_set("set", {0})).number);
  EXPECT_EQ(runtime->sets().ids(), (std::vector<ProcessSetId>{0, set}));
  EXPECT_EQ(runtime->sets().find(set)->ranks, (std::vector<Rank>{0}));
  const auto values = shared<float>({3});
  run(test::in_set(set, test::allreduce("x", values, ReduceOp::kAverage)));
  EXPECT_EQ(values->front(), 3);
  run(test::remove_set("away", set));
  EXPECT_THROW(runtime->sets().find(set), InvalidArgumentError);
  EXPECT_THROW(runtime->submit(test::remove_set("again", set)), InvalidArgumentError);
  EXPECT_NE(run(test::add_set("other", {0})).number, static_cast<std::int64_t>(set));
  EXPECT_THROW(runtime->submit(test::add_set("wrong", {1})), InvalidArgumentError);
}

TEST_F(SoloRank, SendsToItselfInAnyOrder) {
  const std::size_t threads = test::thread_count();
  const auto got = shared<float>({0});
  const Handle received = runtime->submit(test::receive(got, 0, 1));
  EXPECT_FALSE(received.done());
  runtime->submit(test::send(shared<float>({7}), 0, 1)).wait();
  received.wait();
  EXPECT_EQ(got->front(), 7);
  EXPECT_THROW(runtime->submit(test::send(got, 1, 0)), InvalidArgumentError);
  const Handle lonely = runtime->submit(test::send(got, 0, 2));
  runtime->shutdown();
  EXPECT_THROW(lonely.wait(), AbortedError);
  runtime.reset();
  EXPECT_TRUE(test::thread_count_falls_to(threads));
}

TEST_F(SoloRank, TakesWhatIsForOthers) {
  bool changed = false;
  runtime->coordinator().expect_wait_for_root(std::chrono::seconds(1));
  runtime->coordinator().change_settings([&](NegotiationSettings&) { changed = true; });
  runtime->notifier().set_location_callback([] { return "here"; });
  run(test::barrier("x"));
  EXPECT_TRUE(changed);
}

TEST_F(SoloRank, HasNoThreadUntilSomethingHasToWait) {
  const std::size_t threads = test::thread_count();
  run(test::barrier("x"));
  EXPECT_EQ(test::thread_count(), threads);
  const auto got = shared<float>({0});
  const Handle received = runtime->submit(test::receive(got, 0, 1));
  EXPECT_EQ(test::thread_count(), threads + 1);
  runtime->submit(test::send(shared<float>({7}), 0, 1)).wait();
  received.wait();
  runtime->submit(test::barrier("x")).wait();
}

class ImpatientSoloRank : public SoloRank {
 protected:
  static Config impatient() {
    Config config;
    config.stall_warning = std::chrono::milliseconds(20);
    config.stall_limit = std::chrono::seconds(1);
    return config;
  }
  ImpatientSoloRank() : SoloRank(impatient()) {}
};

TEST_F(ImpatientSoloRank, WaitsForNoTransferForEver) {
  testing::internal::CaptureStderr();
  const Handle lonely = runtime->submit(test::send(shared<float>({7}), 0, 1));
  EXPECT_THROW(lonely.wait(), StalledError);
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("send to rank 0 with tag 1"), std::string::npos) << report;
  runtime->submit(test::barrier("x")).wait();
}

}  // namespace
}  // namespace hvd::engine
