#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <thread>

#include "core/base/status.h"
#include "core/config/config.h"
#include "ops/host/message_collective.h"
#include "ops/mpi/mpi_link.h"
#include "test/mpi/failure_printer.h"
#include "test/support/collective_contract.h"

// MPI is initialised by this program, as mpi4py would: ours has to live with it.
namespace hvd::engine::test {
namespace {

TimePoint soon() {
  return Clock::now() + std::chrono::seconds(30);
}

std::shared_ptr<MpiCommunicator> communicator() {
  MpiEnvironment::instance().initialise(soon(), false);
  return std::make_shared<MpiCommunicator>(soon());
}

// Pieces so small that every batch takes many, with ranges of no element on some ranks.
constexpr host::MessageLimits kTinyPieces = {.small_bytes = 0, .piece_bytes = 2'600};
constexpr host::MessageLimits kAlwaysSmall = {.small_bytes = std::size_t{1} << 30};
constexpr host::MessageLimits kNeverSmall = {.small_bytes = 0};

host::MessageCollective collective_over(const std::shared_ptr<MpiCommunicator>& shared,
                                        host::MessageLimits limits = {}) {
  return host::MessageCollective(std::make_shared<MpiMessageLink>(shared, limits));
}

class LimitsContract : public ::testing::TestWithParam<CollectiveCase> {
 protected:
  void hold(host::MessageLimits limits) {
    const auto shared = communicator();
    auto collective = collective_over(shared, limits);
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

TEST(MpiMessageLink, RefusesLimitsThatCannotBeKept) {
  const auto shared = communicator();
  const auto with = [&](host::MessageLimits limits) { collective_over(shared, limits); };
  EXPECT_THROW(with({.piece_bytes = 511}), InvalidArgumentError) << "less than an encoded block";
  EXPECT_THROW(with({.piece_bytes = std::size_t{1} << 31}), InvalidArgumentError);
  EXPECT_THROW(with({.small_bytes = std::size_t{1} << 31}), InvalidArgumentError);
}

TEST(MpiTags, SmallestMpiTellsACoupleOfSetsApart) {
  const MpiTags tags(32767);
  EXPECT_EQ(tags.labels(), 126);
  const auto last = static_cast<std::uint64_t>(tags.labels()) - 1;
  EXPECT_LE(tags.tag({last, MpiTags::kWindow - 1, MpiTags::kStages - 1}), 32767);
  EXPECT_GE(tags.tag({0, 0, 0}), MpiTags::kReserved);
  EXPECT_EQ(tags.tag({5, 3, 1}), tags.tag({131, 67, 1}));
  EXPECT_THROW(MpiTags(32766), UnsupportedError);
}

int greatest_tag(const MpiCommunicator& communicator) {
  int* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(communicator.data(), MPI_TAG_UB, static_cast<void*>(&value), &found);
  return found != 0 ? *value : 0;
}

TEST(MpiMessageLink, RefusesASubsetThatItsTagsCannotTellFromAnother) {
  const auto shared = communicator();
  auto collective = collective_over(shared);
  const auto labels = static_cast<std::uint32_t>(MpiTags(greatest_tag(*shared)).labels());
  const Rank alone[] = {shared->rank()};
  auto first = collective.subset(7, alone);
  EXPECT_THROW(collective.subset(7 + labels, alone), UnsupportedError);
  EXPECT_NO_THROW(collective.subset(8 + labels, alone));
  first.reset();
  EXPECT_NO_THROW(collective.subset(7 + labels, alone));
}

// More than have tags of their own, polled from the last one on every other rank.
TEST(MpiMessageLink, KeepsApartMoreOperationsThanItHasTagsFor) {
  const auto shared = communicator();
  auto collective = collective_over(shared);
  constexpr std::size_t kCount = 3 * MpiTags::kWindow + 5;
  const auto size = static_cast<std::size_t>(shared->size());
  std::vector<std::int64_t> mine(kCount);
  std::vector<std::vector<std::int64_t>> all(kCount, std::vector<std::int64_t>(size));
  std::vector<std::unique_ptr<Operation>> operations;
  for (std::size_t i = 0; i < kCount; ++i) {
    mine[i] = static_cast<std::int64_t>(i * size) + shared->rank();
    operations.push_back(collective.exchange({&mine[i], 1}, all[i]));
  }
  std::size_t finished = 0;
  for (const TimePoint deadline = soon(); finished < kCount; std::this_thread::yield()) {
    ASSERT_LT(Clock::now(), deadline) << finished << " finished";
    finished = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t at = shared->rank() % 2 == 0 ? i : kCount - 1 - i;
      finished += operations[at]->advance() ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t r = 0; r < size; ++r) {
      ASSERT_EQ(all[i][r], static_cast<std::int64_t>(i * size + r)) << "exchange " << i;
    }
  }
}

// What an int cannot count, in a transfer and in pieces: 2 GiB and a little a rank.
TEST(MpiMessageLink, MovesMoreBytesThanAnIntCounts) {
  if (!environment("HVD_TEST_LONG")) GTEST_SKIP() << "HVD_TEST_LONG is not set";
  const auto shared = communicator();
  if (shared->size() != 2) GTEST_SKIP() << "memory for two ranks";
  auto collective = collective_over(shared);
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + 12'345;
  const auto value_of = [](std::size_t i) { return static_cast<std::uint8_t>(i * 7 / 4096); };
  std::vector<std::uint8_t> bytes(kBytes);
  const TensorView view = {bytes.data(), kBytes, DType::kU8, {}};
  const auto expect_values = [&](const char* what) {
    for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(bytes[i], value_of(i)) << what << i;
  };
  const auto complete = [&](const std::unique_ptr<Operation>& operation) {
    while (!operation->advance()) std::this_thread::yield();
  };
  if (shared->rank() == 0) {
    for (std::size_t i = 0; i < kBytes; ++i) bytes[i] = value_of(i);
    complete(collective.send(view, 1, 0));
  } else {
    complete(collective.receive(view, 0, 0));
    expect_values("received byte ");
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
  }
  const Slice slice = {view, view};
  complete(collective.broadcast({&slice, 1}, 0));
  expect_values("broadcast byte ");
  complete(collective.all_reduce({&slice, 1}, {.op = ReduceOp::kMax}));
  expect_values("reduced byte ");
}

TEST(MpiOutbox, ReturnsMpisErrorsAsExceptions) {
  const auto shared = communicator();
  MpiOutbox outbox(shared, shared->control());
  try {
    outbox.send(shared->size(), MpiTag::kControl, Bytes(4));
    FAIL() << "sent to a rank that is not there";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("MPI_ERR_RANK"));
  }
}

}  // namespace
}  // namespace hvd::engine::test

int main(int argc, char** argv) {
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ::testing::InitGoogleTest(&argc, argv);
  hvd::engine::test::print_by_rank(rank);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
