#include "ops/nccl/launch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
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

// Of calls that pack, what runs in which order: by hand, the newest stream first.
class Streams : public Queue {
 protected:
  void add_stages(const std::string& name) {
    const auto call = std::make_shared<Call>();
    call->communicator = world_;
    call->pack = [this, name](CudaStream& stream) { note(stream.get(), "pack " + name); };
    call->begin = [this, name](NcclCommunicator&, cudaStream_t stream) {
      test::enqueue(stream, [this, name] {
        ran_.push_back("move " + name);
        return name != blocked_;
      });
    };
    call->unpack = [this, name](CudaStream& stream) { note(stream.get(), "unpack " + name); };
    queue_.add(call);
  }
  void note(cudaStream_t stream, const std::string& what) {
    test::enqueue(stream, [this, what] {
      ran_.push_back(what);
      return true;
    });
  }

  std::vector<std::string> ran_;
  std::string blocked_;  // NCCL does not finish this call
};

TEST_F(Streams, StagesOfACallFollowEachOther) {
  host_cuda().by_hand = true;
  add_stages("a");
  queue_.pump();
  EXPECT_THAT(ran_, IsEmpty());
  test::run_streams();
  EXPECT_THAT(ran_, ElementsAre("pack a", "move a", "unpack a"));
}

TEST_F(Streams, TheNextIsPackedWhileNcclWorks) {
  blocked_ = "a";
  add_stages("a");
  add_stages("b");
  queue_.pump();
  EXPECT_THAT(ran_, ::testing::Contains("pack b"));
  EXPECT_THAT(ran_, ::testing::Not(::testing::Contains("move b")));
  EXPECT_THAT(ran_, ::testing::Not(::testing::Contains("unpack a")));
  blocked_.clear();
  ran_.clear();
  test::run_streams();
  EXPECT_THAT(ran_, ::testing::UnorderedElementsAre("move a", "unpack a", "move b", "unpack b"));
}

TEST_F(Streams, NcclDoesNotWaitForUnpacking) {
  bool unpacked = false;
  const auto a = add("a");
  a->unpack = [&](CudaStream& stream) { test::enqueue(stream.get(), [&] { return unpacked; }); };
  add_stages("b");
  queue_.pump();
  EXPECT_THAT(ran_, ElementsAre("pack b", "move b"));
  const Fence fence = queue_.fence(world_);
  EXPECT_FALSE(fence.reached());
  unpacked = true;
  EXPECT_TRUE(fence.reached());
  EXPECT_EQ(ran_.back(), "unpack b");
}

TEST_F(Streams, AnEventHoldsBackTheStreamsAndNotTheHost) {
  CudaStream producer(0);
  bool produced = false;
  test::enqueue(producer.get(), [&] { return produced; });
  add_stages("a");
  const auto b = add("b");
  b->ready = {producer.fence()};
  add_stages("c");
  queue_.pump();
  EXPECT_THAT(begun_, ElementsAre("b"));  // though nothing is there yet
  EXPECT_THAT(ran_, ElementsAre("pack a", "move a", "unpack a"));
  produced = true;
  test::run_streams();
  EXPECT_THAT(ran_, ElementsAre("pack a", "move a", "unpack a", "pack c", "move c", "unpack c"));
}

TEST_F(Streams, WhatTheHostWritesIsThereForTheNextCall) {
  host_cuda().by_hand = true;
  int value = 7;
  int on_device = 0;
  const auto a = add("a");
  a->ready = {queue_.write(&value, &on_device, sizeof value)};
  value = 0;  // at once
  EXPECT_EQ(host_cuda().waiting_copies, 0);
  int seen = 0;
  a->begin = [&](NcclCommunicator&, cudaStream_t stream) {
    test::enqueue(stream, [&] {
      seen = on_device;
      return true;
    });
  };
  queue_.pump();
  test::run_streams();
  EXPECT_EQ(seen, 7);
}

TEST_F(Queue, MemoryIsKeptWhileACallIsUnderWay) {
  host_cuda().stalled = true;
  const Fence fence = queue_.fence(world_);
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = memory;
  queue_.retire(std::move(memory));
  queue_.watch(Clock::now());
  EXPECT_FALSE(kept.expired());
  host_cuda().stalled = false;
  queue_.watch(Clock::now());
  EXPECT_TRUE(kept.expired());
}

// A call is over when it is enqueued, and only then its fence is made.
TEST_F(Streams, MemoryIsKeptUntilTheStreamsAreEmpty) {
  blocked_ = "a";
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = memory;
  add_stages("a");
  queue_.retire(std::move(memory));
  queue_.pump();
  queue_.watch(Clock::now());
  EXPECT_FALSE(kept.expired());
  blocked_.clear();
  test::run_streams();
  queue_.watch(Clock::now());
  EXPECT_TRUE(kept.expired());
}

TEST_F(Queue, ACallThatIsOverKeepsNoMemory) {
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = memory;
  const auto a = add("a");
  a->unpack = [memory = std::move(memory)](CudaStream&) {};
  queue_.pump();
  EXPECT_TRUE(a->over);
  EXPECT_TRUE(kept.expired());
}

TEST_F(Streams, MemoryThatOnlyAWriteUsesIsUsedAgainPastIt) {
  host_cuda().by_hand = true;
  const int before = host_cuda().in_pool;
  Buffer scratch = queue_.allocate(sizeof(int));
  const int value = 7;
  CudaStream producer(0);
  bool produced = false;
  test::enqueue(producer.get(), [&] { return produced; });
  const auto a = add("a");
  a->ready = {producer.fence()};
  queue_.pump();
  queue_.write(&value, scratch.data, sizeof value);  // behind a's packing
  scratch = {};
  test::run_streams();
  EXPECT_EQ(host_cuda().in_pool, before + 1);
  produced = true;
  test::run_streams();
  EXPECT_EQ(host_cuda().in_pool, before);
}

TEST_F(Streams, MemoryOfACallIsUsedAgainPastIt) {
  blocked_ = "a";
  const int before = host_cuda().in_pool;
  Buffer result = queue_.allocate(100);
  EXPECT_EQ(host_cuda().mallocs, 0);
  add_stages("a");
  queue_.pump();
  result = {};
  test::run_streams();
  EXPECT_EQ(host_cuda().in_pool, before + 1);
  blocked_.clear();
  test::run_streams();
  EXPECT_EQ(host_cuda().in_pool, before);
}

TEST_F(Queue, WhatADeviceThatHangsMayUseIsKept) {
  auto memory = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = memory;
  {
    LaunchQueue queue(0, Duration::zero());
    queue.retire(std::move(memory));
    host_cuda().stalled = true;
  }
  EXPECT_FALSE(kept.expired());
  host_cuda().stalled = false;
  auto more = std::make_shared<int>(0);
  const std::weak_ptr<int> freed = more;
  {
    LaunchQueue queue(0, Duration::zero());
    queue.retire(std::move(more));
  }
  EXPECT_TRUE(freed.expired());
}

TEST_F(Queue, ACallThatNcclDoesNotBeginIsAborted) {
  const auto a = add("a");
  a->begin = [this](NcclCommunicator&, cudaStream_t) { nccl_.state = ncclInProgress; };
  queue_.pump();
  queue_.watch(Clock::now() + std::chrono::seconds(599));
  try {
    queue_.watch(Clock::now() + std::chrono::seconds(601));
    FAIL() << "it may take forever";
  } catch (const StalledError& error) {
    EXPECT_THAT(error.what(), HasSubstr("starting a call on CUDA device 0 for 60"));
  }
  EXPECT_THROW(queue_.pump(), AbortedError);
}

TEST_F(Queue, AnErrorOfTheChildThatCalledIsSeen) {
  const auto child =
      std::make_shared<NcclCommunicator>(nccl_.api(), NcclCommunicator::Place{.size = 2});
  world_->begin_shrink({}, child);
  host_cuda().stalled = true;
  const Fence fence = queue_.fence(world_, child);
  child->abort();
  host_cuda().stalled = true;  // aborting it ends kernels: not here
  EXPECT_THROW(queue_.watch(Clock::now()), AbortedError);
  host_cuda().stalled = false;
  EXPECT_THROW(fence.wait(), AbortedError) << "the work is not done, though its event is reached";
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
    FAIL() << "it may take forever";
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
}  // namespace hvd::engine
