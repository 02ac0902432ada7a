// allgather, gather, scatter, alltoall, broadcast, barrier, send and recv.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Allgather, ConcatenatesFirstAxesOfDifferentExtentInEveryDtype) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    run_sets(3, [dtype](const ProcessSet& all) {
      const int rank = all.rank();
      Tensor mine = Tensor::zeros({rank, 2}, dtype);
      if (!is_complex(dtype)) mine.fill_(1);
      const Tensor joined = allgather(mine, {.name = "rows", .process_set = all});
      EXPECT_EQ(joined.shape(), (Shape{3, 2}));
      EXPECT_EQ(joined.dtype(), dtype);
      if (!is_complex(dtype)) {
        EXPECT_THAT(joined.to_vector(), ElementsAre(1, 1, 1, 1, 1, 1));
      }
    });
  }
}

TEST(Allgather, OfNoRowsAtAllHasNone) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor joined = allgather(Tensor::zeros({0, 3}), {.process_set = all});
    EXPECT_EQ(joined.shape(), (Shape{0, 3}));
  });
}

TEST(Allgather, TellsHowManyRowsEachRankGave) {
  run_sets(3, [](const ProcessSet& all) {
    const auto handle = allgather_async(Tensor::zeros({all.rank() + 1}), {.process_set = all});
    EXPECT_THAT(handle.result().rows_of, ElementsAre(1, 2, 3));
  });
}

TEST(Gather, GivesTheRootAllRowsAndOthersNothing) {
  for (const int size : {1, 2, 4}) {
    run_sets(size, [size](const ProcessSet& all) {
      const int root = size / 2;
      const Tensor mine = Tensor::full({all.rank() + 1}, all.rank());
      const Tensor rows = gather(mine, root, {.process_set = all});
      EXPECT_EQ(rows.defined(), all.rank() == root);
      if (all.rank() != root) return;
      std::vector<double> expected;
      for (int rank = 0; rank < size; ++rank) {
        expected.insert(expected.end(), static_cast<std::size_t>(rank) + 1, rank);
      }
      EXPECT_EQ(rows.to_vector(), expected);
    });
  }
}

TEST(Scatter, CutsTheRootsRowsBySplitsOrEvenly) {
  run_sets(3, [](const ProcessSet& all) {
    const bool root = all.rank() == 1;
    const Tensor rows =
        root ? Tensor::arange(12).reshape({6, 2}) : Tensor::zeros({9, 2}, DType::kI64);
    const Tensor even = scatter(rows, 1, {.process_set = all});
    EXPECT_EQ(even.shape(), (Shape{2, 2}));
    EXPECT_EQ(even.to_vector()[0], 4 * all.rank());
    std::vector<std::int64_t> splits;
    if (root) splits = {0, 5, 1};
    const Tensor part = scatter(rows, 1, {.splits = splits, .process_set = all});
    const std::vector<std::int64_t> sizes = {0, 5, 1};
    EXPECT_EQ(part.size(0), sizes[static_cast<std::size_t>(all.rank())]);
    if (all.rank() == 2) {
      EXPECT_THAT(part.to_vector(), ElementsAre(10, 11));
    }
  });
}

TEST(Alltoall, SendsEachRankItsRowsAndTellsWhatCame) {
  run_sets(3, [](const ProcessSet& all) {
    const int rank = all.rank();
    // Rank r sends r rows to rank 0, none to rank 1 and one to rank 2, all of value r.
    const Tensor mine = Tensor::full({rank + 1, 2}, rank, DType::kI32);
    const AlltoallResult got = alltoall(mine, {.splits = {rank, 0, 1}, .process_set = all});
    if (rank == 0) {
      EXPECT_THAT(got.received_splits, ElementsAre(0, 1, 2));
    }
    if (rank == 1) {
      EXPECT_THAT(got.received_splits, ElementsAre(0, 0, 0));
    }
    if (rank == 2) {
      EXPECT_THAT(got.received_splits, ElementsAre(1, 1, 1));
    }
    if (rank == 0) {
      EXPECT_THAT(got.output.to_vector(), ElementsAre(1, 1, 2, 2, 2, 2));
    }
    if (rank == 1) {
      EXPECT_EQ(got.output.shape(), (Shape{0, 2}));
    }
    if (rank == 2) {
      EXPECT_THAT(got.output.to_vector(), ElementsAre(0, 0, 1, 1, 2, 2));
    }
  });
}

TEST(Alltoall, WithoutSplitsDividesTheRowsEvenly) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor mine = Tensor::full({4}, all.rank());
    EXPECT_THAT(alltoall(mine, {.process_set = all}).output.to_vector(), ElementsAre(0, 0, 1, 1));
  });
}

TEST(Broadcast, GivesTheRootsValuesAndLeavesTheInput) {
  for (const int size : {1, 2, 3, 4}) {
    run_sets(size, [size](const ProcessSet& all) {
      const Tensor value = Tensor::full({3}, all.rank(), DType::kF64);
      const double root = size - 1;
      EXPECT_THAT(broadcast(value, size - 1, {.process_set = all}).to_vector(),
                  ElementsAre(root, root, root));
      EXPECT_EQ(value.to_vector()[0], all.rank());
      broadcast_(value, size - 1, {.process_set = all});
      EXPECT_EQ(value.to_vector()[0], root);
    });
  }
}

TEST(Movement, MistakesOfOneRankAreThrownAtTheCallWithTheValues) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor rows = Tensor::ones({3, 2});
    const Tensor scalar = Tensor::scalar(1);
    const auto complaint = [&](const auto& call) { return message_of<InvalidArgumentError>(call); };
    EXPECT_THAT(complaint([&] { allgather(scalar, {.process_set = all}); }), HasSubstr("scalar"));
    EXPECT_THAT(complaint([&] { broadcast(rows, 2, {.process_set = all}); }),
                HasSubstr("root rank 2"));
    EXPECT_THAT(complaint([&] { alltoall(rows, {.name = "a", .process_set = all}); }),
                HasSubstr("alltoall.a: 3 rows do not divide evenly among 2 ranks"));
    EXPECT_THAT(complaint([&] {
                  alltoall(rows, {.splits = {1, 1}, .process_set = all});
                }),
                HasSubstr("2 splits of 2 rows in all, for 2 ranks and a tensor of shape [3, 2]"));
    EXPECT_THAT(complaint([&] {
                  alltoall(rows, {.splits = {4, -1}, .process_set = all});
                }),
                HasSubstr("-1"));
    EXPECT_THAT(complaint([&] { alltoall(rows, {.splits = {3}, .process_set = all}); }),
                HasSubstr("1 splits"));
    const int other = 1 - all.rank();
    EXPECT_THAT(complaint([&] { send(rows, all.rank(), {.process_set = all}); }),
                HasSubstr("is this rank itself"));
    EXPECT_THAT(complaint([&] { recv(rows, 7, {.process_set = all}); }), HasSubstr("rank 7"));
    EXPECT_THAT(complaint([&] { send(rows, other, {.tag = -1, .process_set = all}); }),
                HasSubstr("-1"));
  });
}

TEST(Barrier, LetsNobodyGoBeforeAllCame) {
  std::atomic<int> arrived{0};
  run_sets(4, [&](const ProcessSet& all) {
    ++arrived;
    barrier({.process_set = all});
    EXPECT_EQ(arrived.load(), 4);
    barrier_async({.name = "again", .process_set = all}).synchronize();
  });
}

TEST(SendRecv, CarriesTensorsInOrderByPairAndTag) {
  run_sets(3, [](const ProcessSet& all) {
    const int to = (all.rank() + 1) % 3;
    const int from = (all.rank() + 2) % 3;
    std::vector<Tensor> got;
    std::vector<CollectiveHandle> handles;
    for (const int tag : {0, 1, 0}) {
      got.push_back(Tensor::zeros({2}, DType::kI32));
      handles.push_back(irecv(got.back(), from, {.tag = tag, .process_set = all}));
    }
    const auto value = [&](int i) { return Tensor::full({2}, 10 * all.rank() + i, DType::kI32); };
    handles.push_back(isend(value(1), to, {.tag = 1, .process_set = all}));
    handles.push_back(isend(value(0), to, {.tag = 0, .process_set = all}));
    handles.push_back(isend(value(2), to, {.tag = 0, .process_set = all}));
    synchronize_all(handles);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(got[static_cast<std::size_t>(i)].to_vector(),
                  ElementsAre(10 * from + i, 10 * from + i));
    }
  });
}

TEST(SendRecv, EndsThatDifferAreAnErrorOnBothAndTheNextPairMeets) {
  run_sets(2, [](const ProcessSet& all) {
    Tensor tensor = Tensor::full({all.rank() + 2}, all.rank());
    const auto exchange = [&] {
      if (all.rank() == 0) {
        send(tensor, 1, {.process_set = all});
      } else {
        recv(tensor, 0, {.process_set = all});
      }
    };
    EXPECT_THROW(exchange(), MismatchError);
    tensor = Tensor::full({3}, all.rank() + 5);
    exchange();
    EXPECT_THAT(tensor.to_vector(), ElementsAre(5, 5, 5));
  });
}

}  // namespace
}  // namespace hvd
