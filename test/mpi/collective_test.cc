#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "core/base/status.h"
#include "ops/mpi/mpi_collective.h"
#include "test/support/collective_contract.h"

// MPI is initialised by this program, as mpi4py would: ours has to live with it.
namespace hvd::test {
namespace {

TimePoint soon() {
  return Clock::now() + std::chrono::seconds(30);
}

std::shared_ptr<MpiCommunicator> communicator() {
  MpiEnvironment::instance().initialise(soon());
  return std::make_shared<MpiCommunicator>(soon());
}

// Pieces so small that every batch takes many, with ranges of no element on some ranks.
constexpr MpiCollectiveLimits kTinyPieces = {.small_bytes = 0, .piece_bytes = 520};
constexpr MpiCollectiveLimits kAlwaysSmall = {.small_bytes = 1 << 26};
constexpr MpiCollectiveLimits kNeverSmall = {.small_bytes = 0};

class LimitsContract : public ::testing::TestWithParam<CollectiveCase> {
 protected:
  void hold(MpiCollectiveLimits limits) {
    const auto shared = communicator();
    MpiCollective collective(shared, limits);
    GetParam().run(collective, shared->rank(), shared->size());
  }
};

TEST_P(LimitsContract, HoldsPieceByPiece) {
  hold(kTinyPieces);
}

TEST_P(LimitsContract, HoldsWhenEveryBatchGoesToAll) {
  hold(kAlwaysSmall);
}

TEST_P(LimitsContract, HoldsWhenEveryBatchIsScattered) {
  hold(kNeverSmall);
}

INSTANTIATE_TEST_SUITE_P(Mpi, LimitsContract, ::testing::ValuesIn(collective_contract()),
                         [](const auto& instance) { return instance.param.name; });

TEST(MpiCollective, RefusesPiecesThatMpiCannotCount) {
  const auto shared = communicator();
  EXPECT_THROW(MpiCollective(shared, {.piece_bytes = std::size_t{1} << 31}), InvalidArgumentError);
  EXPECT_THROW(MpiCollective(shared, {.piece_bytes = 0}), InvalidArgumentError);
}

TEST(MpiCollective, ReturnsMpisErrorsAsExceptions) {
  const auto shared = communicator();
  MpiOutbox outbox(shared);
  try {
    outbox.send(shared->size(), MpiTag::kControl, Bytes(4));
    FAIL() << "sent to a rank that is not there";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("MPI_ERR_RANK"));
  }
}

}  // namespace
}  // namespace hvd::test

int main(int argc, char** argv) {
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ::testing::InitGoogleTest(&argc, argv);
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
