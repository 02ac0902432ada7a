#include "ops/nccl/launch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd {
namespace {

using test::FakeNccl;
using test::host_cuda;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Call = LaunchQueue::Call;

class Gate final : public Fence::State {
 public:
  bool reached() override { return open; }
  void wait() override {}
  bool open = false;
};

class Queue : public ::testing::Test {
 protected:
  std::shared_ptr<NcclCommunicator> communicator(int size = 2) {
    return std::make_shared<NcclCommunicator>(nccl_.api(), make_nccl_id(nccl_.api()),
                                              NcclCommunicator::Place{.rank = 1, .size = size});
  }
  std::shared_ptr<Call> add(const std::string& name) {
    auto call = std::make_shared<Call>();
    call->communicator = world_;
    call->begin = [this, name](NcclCommunicator&, cudaStream_t) { begun_.push_back(name); };
    queue_.add(call);
    return call;
  }

  FakeNccl nccl_;
  std::shared_ptr<NcclCommunicator> world_ = communicator();
  LaunchQueue queue_{0, std::chrono::seconds(600)};
  std::vector<std::string> begun_;
};

TEST_F(Queue, BeginsOneAfterAnother) {
  add("a");
  add("b");
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("a", "b"));
}

TEST_F(Queue, TheNextWaitsUntilNcclTookTheLast) {
  const auto a = add("a");
  add("b");
  a->begin = [this](NcclCommunicator&, cudaStream_t) {
    begun_.emplace_back("a");
    nccl_.state = ncclInProgress;
  };
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("a"));
  EXPECT_FALSE(a->over);
  EXPECT_TRUE(queue_.poll_interval().has_value());
  nccl_.state = ncclSuccess;
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("a", "b"));
  EXPECT_TRUE(a->over);
  EXPECT_FALSE(queue_.poll_interval().has_value());
}

TEST_F(Queue, NothingBeginsBeforeTheWorldIsConnected) {
  nccl_.state = ncclInProgress;
  add("a");
  queue_.pump();
  EXPECT_THAT(begun_, IsEmpty());
}

TEST_F(Queue, AForeignFenceHoldsBackItsCallAndThoseBehind) {
  const auto gate = std::make_shared<Gate>();
  const auto a = add("a");
  a->ready = {Fence(gate)};
  add("b");
  queue_.pump();
  EXPECT_THAT(begun_, IsEmpty());
  gate->open = true;
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("a", "b"));
}

TEST_F(Queue, ACommunicatorIsMadeOnceTheStreamIsEmpty) {
  host_cuda().stalled = true;
  const auto a = add("a");
  a->after_all = true;
  queue_.pump();
  EXPECT_THAT(begun_, IsEmpty());
  host_cuda().stalled = false;
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("a"));
}

TEST_F(Queue, WhatACallFailedWithIsThrown) {
  const auto a = add("a");
  a->begin = [this](NcclCommunicator&, cudaStream_t) { nccl_.state = ncclInternalError; };
  EXPECT_THROW(queue_.pump(), PeerLostError);
}

TEST_F(Queue, AFenceOfAbortedWorkThrows) {
  host_cuda().stalled = true;
  const Fence fence = queue_.fence(world_);
  EXPECT_FALSE(fence.reached());
  world_->abort();
  EXPECT_TRUE(fence.reached());
  EXPECT_THROW(fence.wait(), AbortedError);
}

TEST_F(Queue, AnErrorOfWorkOnTheStreamAbortsIt) {
  host_cuda().stalled = true;
  const Fence fence = queue_.fence(world_);
  queue_.watch(Clock::now());
  EXPECT_TRUE(queue_.poll_interval().has_value());
  nccl_.state = ncclRemoteError;
  EXPECT_THROW(queue_.watch(Clock::now()), PeerLostError);
  EXPECT_THROW(fence.wait(), AbortedError);
}

TEST_F(Queue, WorkThatTakesTooLongIsAborted) {
  host_cuda().stalled = true;
  const Fence fence = queue_.fence(world_);
  queue_.watch(Clock::now() + std::chrono::seconds(599));
  try {
    queue_.watch(Clock::now() + std::chrono::seconds(601));
    FAIL() << "it may take for ever";
  } catch (const StalledError& error) {
    EXPECT_THAT(error.what(), HasSubstr("CUDA device 0 for 60"));
    EXPECT_THAT(error.what(), HasSubstr("rank 1 of 2"));
  }
  EXPECT_THROW(fence.wait(), AbortedError);
}

TEST_F(Queue, WorkThatIsDoneIsForgotten) {
  const Fence fence = queue_.fence(world_);
  queue_.watch(Clock::now() + std::chrono::hours(1));
  EXPECT_FALSE(queue_.poll_interval().has_value());
  fence.wait();
}

TEST_F(Queue, ADeviceThatFailedIsToldByTheFence) {
  const Fence fence = queue_.fence(world_);
  host_cuda().wait_error = cudaErrorLaunchFailure;
  EXPECT_THROW(fence.wait(), PeerLostError);
}

}  // namespace
}  // namespace hvd
