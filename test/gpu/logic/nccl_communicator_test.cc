#include "ops/nccl/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/base/status.h"
#include "test/gpu/logic/fake_nccl.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine {
namespace {

using test::FakeNccl;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Names = std::vector<std::string>;

class Communicator : public ::testing::Test {
 protected:
  std::shared_ptr<NcclCommunicator> make(Duration connect_limit = Duration::zero()) {
    return std::make_shared<NcclCommunicator>(
        nccl_.api(), make_nccl_id(nccl_.api()),
        NcclCommunicator::Place{.rank = 2, .size = 4, .device = 1, .connect_limit = connect_limit});
  }

  FakeNccl nccl_;
};

template <typename Exception>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(Communicator, ConnectsWithoutWaiting) {
  nccl_.state = ncclInProgress;
  nccl_.results["ncclCommInitRankConfig"] = ncclInProgress;
  const auto communicator = make();
  EXPECT_EQ(nccl_.blocking, 0);
  EXPECT_FALSE(communicator->settled());
  nccl_.state = ncclSuccess;
  EXPECT_TRUE(communicator->settled());
}

TEST_F(Communicator, LeavesTheCurrentDeviceAsItWas) {
  const auto communicator = make();
  EXPECT_EQ(test::host_cuda().current_device, 0);
}

TEST_F(Communicator, AnIdOfAnotherLengthIsRefused) {
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { NcclCommunicator(nccl_.api(), "short", NcclCommunicator::Place{}); }),
              HasSubstr("128 bytes, not 5"));
}

TEST_F(Communicator, ConnectingTooLongIsAnErrorThatNamesRankAndDevice) {
  nccl_.state = ncclInProgress;
  const auto communicator = make(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(6));
  EXPECT_THAT(message_of<StalledError>([&] { communicator->settled(); }),
              AllOf(HasSubstr("rank 2 of 4"), HasSubstr("CUDA device 1"), HasSubstr("5 ms")));
}

TEST_F(Communicator, TheLimitIsForConnectingOnly) {
  const auto communicator = make(std::chrono::milliseconds(5));
  EXPECT_TRUE(communicator->settled());
  std::this_thread::sleep_for(std::chrono::milliseconds(6));
  nccl_.state = ncclInProgress;  // another call
  EXPECT_FALSE(communicator->settled());
}

TEST_F(Communicator, CallsAreOneGroup) {
  const auto communicator = make();
  nccl_.calls.clear();
  communicator->begin([&](ncclComm_t comm) {
    nccl_.api().all_gather(nullptr, nullptr, 0, ncclUint8, comm, nullptr);
    nccl_.api().all_gather(nullptr, nullptr, 0, ncclUint8, comm, nullptr);
  });
  EXPECT_THAT(nccl_.names(),
              ElementsAre("ncclGroupStart", "ncclAllGather", "ncclAllGather", "ncclGroupEnd"));
}

TEST_F(Communicator, AGroupIsClosedWhenACallFails) {
  const auto communicator = make();
  nccl_.calls.clear();
  EXPECT_THROW(communicator->begin([](ncclComm_t) { throw PeerLostError("x"); }), PeerLostError);
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclGroupStart", "ncclGroupEnd"));
}

TEST_F(Communicator, AFailedCallIsToldInNcclsWords) {
  const auto communicator = make();
  nccl_.results["ncclGroupEnd"] = ncclRemoteError;
  EXPECT_THAT(
      message_of<PeerLostError>([&] { communicator->begin([](ncclComm_t) {}); }),
      AllOf(HasSubstr("ncclGroupEnd"), HasSubstr("NCCL's text"), HasSubstr("what NCCL noted")));
}

TEST_F(Communicator, AnNcclThatCannotStartSaysWhereWhyAndWhatToDo) {
  const auto tells =
      AllOf(HasSubstr("NCCL could not be initialised on rank 2 of 4 (CUDA device 1)"),
            HasSubstr("NCCL's text (what NCCL noted)"), HasSubstr("NCCL_DEBUG=INFO"),
            HasSubstr("HVD_GPU_OPERATIONS=ipc"));
  nccl_.results["ncclCommInitRankConfig"] = ncclUnhandledCudaError;
  EXPECT_THAT(message_of<UnsupportedError>([&] { make(); }), tells);
  nccl_.results.clear();
  nccl_.state = ncclInvalidUsage;  // found while it connects
  EXPECT_THAT(message_of<UnsupportedError>([communicator = make()] { communicator->settled(); }),
              tells);
  nccl_.state = ncclRemoteError;  // another rank may be gone
  EXPECT_THAT(message_of<PeerLostError>([communicator = make()] { communicator->settled(); }),
              tells);
}

TEST_F(Communicator, SoDoesOneMadeFromAnother) {
  const auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  const auto child =
      std::make_shared<NcclCommunicator>(nccl_.api(), NcclCommunicator::Place{.size = 4});
  nccl_.results["ncclCommSplit"] = ncclUnhandledCudaError;
  EXPECT_THAT(
      message_of<UnsupportedError>([&] { communicator->begin_shrink({}, child); }),
      AllOf(HasSubstr("NCCL could not be initialised on rank 2"), HasSubstr("ncclCommSplit")));
}

TEST_F(Communicator, AnErrorThatComesLaterIsSeenByPolling) {
  const auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  nccl_.state = ncclSystemError;
  EXPECT_THAT(message_of<PeerLostError>([&] { communicator->settled(); }),
              HasSubstr("NCCL's text"));
}

TEST_F(Communicator, AbortEndsItAndWhatWasMadeFromItOnce) {
  const auto communicator = make();
  const auto child =
      std::make_shared<NcclCommunicator>(nccl_.api(), NcclCommunicator::Place{.size = 2});
  communicator->begin_shrink({0, 1}, child);
  communicator->abort();
  communicator->abort();
  EXPECT_EQ(nccl_.named("ncclCommAbort").size(), 2u);
  EXPECT_THROW(communicator->settled(), AbortedError);
  EXPECT_THROW(communicator->begin([](ncclComm_t) {}), AbortedError);
  EXPECT_THROW(child->check_usable(), AbortedError);
}

TEST_F(Communicator, ASmallerOneLeavesOutTheOthersAndAnEqualOneIsASplit) {
  const auto communicator = make();
  const auto smaller =
      std::make_shared<NcclCommunicator>(nccl_.api(), NcclCommunicator::Place{.size = 2});
  EXPECT_FALSE(smaller->settled());
  communicator->begin_shrink({0, 3}, smaller);
  EXPECT_TRUE(smaller->settled());
  EXPECT_THAT(nccl_.named("ncclCommShrink").at(0).without, ElementsAre(0, 3));
  const auto equal =
      std::make_shared<NcclCommunicator>(nccl_.api(), NcclCommunicator::Place{.size = 4});
  communicator->begin_shrink({}, equal);
  EXPECT_EQ(nccl_.named("ncclCommSplit").size(), 1u);
}

// Memory of its own, for tests that look at who frees it.
Buffer some_memory() {
  auto memory = std::make_shared<std::vector<std::byte>>(64);
  return {memory->data(), memory->size(), memory};
}

TEST_F(Communicator, MemoryIsDeregisteredBeforeItIsFreed) {
  const auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  Buffer memory = some_memory();
  const std::weak_ptr<const void> owner = memory.owner;
  void* const handle = communicator->register_memory(memory);
  EXPECT_EQ(nccl_.named("ncclCommRegister").at(0).count, 64u);
  communicator->deregister(handle, std::move(memory));
  EXPECT_EQ(nccl_.named("ncclCommDeregister").at(0).to, handle);
  EXPECT_TRUE(owner.expired());
}

TEST_F(Communicator, MemoryThatGoesDuringACallIsKept) {
  auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  Buffer memory = some_memory();
  const std::weak_ptr<const void> owner = memory.owner;
  void* const handle = communicator->register_memory(memory);
  nccl_.state = ncclInProgress;
  communicator->deregister(handle, std::move(memory));
  EXPECT_THAT(nccl_.names(), Not(Contains("ncclCommDeregister")));
  EXPECT_FALSE(owner.expired());
  nccl_.state = ncclSuccess;
  nccl_.calls.clear();
  communicator.reset();
  EXPECT_THAT(nccl_.names(),
              ElementsAre("ncclCommDeregister", "ncclCommFinalize", "ncclCommDestroy"));
  EXPECT_TRUE(owner.expired());
}

TEST_F(Communicator, AfterAbortNothingIsDeregistered) {
  const auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  Buffer memory = some_memory();
  void* const handle = communicator->register_memory(memory);
  communicator->abort();
  communicator->deregister(handle, std::move(memory));
  EXPECT_THAT(nccl_.names(), Not(Contains("ncclCommDeregister")));
  EXPECT_THROW(communicator->register_memory(some_memory()), AbortedError);
}

TEST_F(Communicator, ALibraryWithoutRegistrationDoesWithout) {
  nccl_.drop_registration();
  const auto communicator = make();
  EXPECT_EQ(communicator->register_memory(some_memory()), nullptr);
}

TEST_F(Communicator, IsFinalizedBeforeItGoes) {
  EXPECT_TRUE(make()->settled());
  EXPECT_THAT(nccl_.names(), ElementsAre("ncclGetUniqueId", "ncclCommInitRankConfig",
                                         "ncclCommFinalize", "ncclCommDestroy"));
}

TEST_F(Communicator, PeersThatDoNotAnswerKeepItForASecond) {
  auto communicator = make();
  EXPECT_TRUE(communicator->settled());
  nccl_.results["ncclCommFinalize"] = ncclInProgress;
  nccl_.state = ncclInProgress;
  const TimePoint begin = Clock::now();
  communicator.reset();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(nccl_.names(), Contains("ncclCommAbort"));
  EXPECT_THAT(nccl_.names(), Not(Contains("ncclCommDestroy")));
}

TEST_F(Communicator, OneThatNeverConnectedIsAborted) {
  nccl_.state = ncclInProgress;
  make();
  EXPECT_THAT(nccl_.names(), Contains("ncclCommAbort"));
}

}  // namespace
}  // namespace hvd::engine
