#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "core/base/status.h"
#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

Rank next_of(Rank rank, int size) {
  return (rank + 1) % size;
}
Rank previous_of(Rank rank, int size) {
  return (rank + size - 1) % size;
}

// Everyone sends to the next rank and receives from the one before: in a world of one to itself.
void passes_around_every_dtype(Collective& collective, Rank rank, int size) {
  const Rank previous = previous_of(rank, size);
  for (const DType dtype : kAllDTypes) {
    for (const std::int64_t numel : {0, 1, 1003}) {
      TypedArray mine = marked_array(dtype, rank, numel, numel);
      TypedArray received(dtype, numel);
      Operations operations;
      operations.push_back(collective.send(mine.view(), next_of(rank, size), 7));
      operations.push_back(collective.receive(received.view(), previous, 7));
      finish_all(operations, collective);
      expect_same(received, marked_array(dtype, previous, numel, numel), "received");
    }
  }
}

void passes_around_several_mebibytes(Collective& collective, Rank rank, int size) {
  constexpr std::int64_t kNumel = 1'500'007;
  TypedArray mine = marked_array(DType::kF32, rank, 0, kNumel);
  TypedArray received(DType::kF32, kNumel);
  Operations operations;
  operations.push_back(collective.receive(received.view(), previous_of(rank, size), 0));
  operations.push_back(collective.send(mine.view(), next_of(rank, size), 0));
  finish_all(operations, collective);
  expect_same(received, marked_array(DType::kF32, previous_of(rank, size), 0, kNumel), "received");
}

// Of each pair of ranks and each tag the n-th send belongs to the n-th receive, whatever the order
// among pairs and tags and the order of polling.
void keeps_pairs_and_tags_apart(Collective& collective, Rank rank, int size) {
  constexpr int kTags = 3;
  constexpr int kEach = 4;
  struct Transfer {
    Rank peer;
    int tag;
    TypedArray sent;
    TypedArray received;
  };
  std::deque<Transfer> transfers;
  const auto label = [](Rank from, Rank to, int tag, int number) {
    return TypedArray(DType::kI32,
                      std::vector<double>{from + 0.0, to + 0.0, tag + 0.0, number + 0.0});
  };
  Operations operations;
  for (int number = 0; number < kEach; ++number) {
    for (int t = 0; t < kTags; ++t) {
      for (Rank p = 0; p < size; ++p) {
        const int tag = (t + rank) % kTags * 1000;  // every rank has an order of its own
        const Rank peer = (p + 2 * rank) % size;
        Transfer& transfer = transfers.emplace_back(
            Transfer{peer, tag, label(rank, peer, tag, number), TypedArray(DType::kI32, 4)});
        operations.push_back(collective.send(transfer.sent.view(), peer, tag));
        operations.push_back(collective.receive(transfer.received.view(), peer, tag));
      }
    }
  }
  std::vector<std::size_t> backwards;
  for (std::size_t i = operations.size(); i > 0; --i) backwards.push_back(i - 1);
  finish_in_order(operations, backwards, collective);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    const auto number = static_cast<int>(i) / (kTags * size);
    expect_same(transfer.received, label(transfer.peer, rank, transfer.tag, number),
                "transfer " + std::to_string(i));
  }
}

void receives_tags_in_any_order(Collective& collective, Rank rank, int size) {
  std::deque<TypedArray> sent;
  std::deque<TypedArray> received;
  Operations sends;
  for (const int tag : {1, 2, 3}) {
    TypedArray& array = sent.emplace_back(marked_array(DType::kF64, rank, tag, 30));
    sends.push_back(collective.send(array.view(), next_of(rank, size), tag));
  }
  for (const int tag : {3, 1, 2}) {  // each is finished before the next is started
    TypedArray& array = received.emplace_back(DType::kF64, 30);
    const auto receive = collective.receive(array.view(), previous_of(rank, size), tag);
    const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
    while (!receive->advance()) {
      for (const auto& send : sends) send->advance();
      ASSERT_LT(Clock::now(), deadline) << "tag " << tag << " waits for an earlier one";
      std::this_thread::yield();
    }
    collective.fence().wait();  // before the operation ends
  }
  finish_all(sends, collective);
  for (const std::size_t i : {0u, 1u, 2u}) {
    const std::int64_t tag = std::array{3, 1, 2}[i];
    expect_same(received[i], marked_array(DType::kF64, previous_of(rank, size), tag, 30), "by tag");
  }
}

void waits_for_either_side(Collective& collective, Rank rank, int size) {
  for (const bool sender_is_late : {false, true}) {
    const bool late = sender_is_late == (rank % 2 == 0);
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    TypedArray mine = marked_array(DType::kI64, rank, 5, 99);
    TypedArray received(DType::kI64, 99);
    Operations operations;
    if (rank % 2 == 0) operations.push_back(collective.send(mine.view(), next_of(rank, size), 1));
    if (previous_of(rank, size) % 2 == 0) {
      operations.push_back(collective.receive(received.view(), previous_of(rank, size), 1));
    }
    finish_all(operations, collective);
    if (previous_of(rank, size) % 2 == 0) {
      expect_same(received, marked_array(DType::kI64, previous_of(rank, size), 5, 99), "received");
    }
  }
}

// Polls them until each has thrown.
void expect_mismatches(Operations operations, const std::vector<std::string>& named) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
  while (!operations.empty()) {
    ASSERT_LT(Clock::now(), deadline) << "a mismatch was not seen";
    std::erase_if(operations, [&](const auto& operation) {
      try {
        EXPECT_FALSE(operation->advance()) << "what does not match was finished";
        return false;
      } catch (const MismatchError& error) {
        for (const std::string& text : named) {
          EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
              << "\"" << error.what() << "\" does not say " << text;
        }
        return true;
      }
    });
    std::this_thread::yield();
  }
}

// One side sends other than what the other side expects; what follows with the same tag is served.
void refuses_what_does_not_match(Collective& collective, Rank rank, int size) {
  const auto mismatch = [&](DType sent, std::int64_t sent_numel, DType expected,
                            std::int64_t expected_numel, const std::vector<std::string>& named) {
    TypedArray mine(sent, sent_numel);
    TypedArray theirs = marked_array(expected, 0, 0, expected_numel);
    Operations operations;
    operations.push_back(collective.send(mine.view(), next_of(rank, size), 4));
    operations.push_back(collective.receive(theirs.view(), previous_of(rank, size), 4));
    expect_mismatches(std::move(operations), named);
    expect_same(theirs, marked_array(expected, 0, 0, expected_numel), "the receiver's memory");
    TypedArray next = marked_array(DType::kF32, rank, 1, 21);
    TypedArray received(DType::kF32, 21);
    operations.clear();
    operations.push_back(collective.send(next.view(), next_of(rank, size), 4));
    operations.push_back(collective.receive(received.view(), previous_of(rank, size), 4));
    finish_all(operations, collective);
    expect_same(received, marked_array(DType::kF32, previous_of(rank, size), 1, 21),
                "what follows");
  };
  mismatch(DType::kF32, 15, DType::kF32, 16, {"15", "16"});
  mismatch(DType::kF32, 300'000, DType::kF32, 9, {"300000", "9"});
  mismatch(DType::kF32, 0, DType::kF32, 9, {"0", "9"});
  mismatch(DType::kF32, 12, DType::kI32, 12, {"float32", "int32"});
  mismatch(DType::kF64, 6, DType::kC64, 6, {"float64", "complex64"});
}

void serves_many_at_once(Collective& collective, Rank rank, int size) {
  constexpr int kCount = 100;
  std::deque<TypedArray> sent;
  std::deque<TypedArray> received;
  Operations operations;
  const auto numel_of = [](int i) { return std::int64_t{i % 7 == 0 ? 20'000 : i}; };
  for (int i = 0; i < kCount; ++i) {
    TypedArray& to = received.emplace_back(DType::kI16, numel_of(kCount - 1 - i));
    operations.push_back(collective.receive(to.view(), previous_of(rank, size), kCount - 1 - i));
    TypedArray& from = sent.emplace_back(marked_array(DType::kI16, rank, i, numel_of(i)));
    operations.push_back(collective.send(from.view(), next_of(rank, size), i));
  }
  finish_all(operations, collective);
  for (int i = 0; i < kCount; ++i) {
    const int tag = kCount - 1 - i;
    expect_same(received[static_cast<std::size_t>(i)],
                marked_array(DType::kI16, previous_of(rank, size), tag, numel_of(tag)),
                "tag " + std::to_string(tag));
  }
}

// The lowest rank has started a collective that the others start only after they heard from it.
void stands_outside_the_order_of_collectives(Collective& collective, Rank rank, int size) {
  Batch batch;
  batch.add(contributions(ReduceOp::kSum, DType::kI32, rank, 400));
  Operations reductions;
  const auto start = [&] {
    reductions.push_back(collective.all_reduce(batch.slices(), {}));
    return reductions.back().get();
  };
  TypedArray word(DType::kI32, std::vector<double>{rank == 0 ? 42.0 : 0.0});
  Operation* const early = rank == 0 ? start() : nullptr;
  for (Rank peer = 1; peer < size; ++peer) {
    if (rank != 0 && rank != peer) continue;
    const auto transfer =
        rank == 0 ? collective.send(word.view(), peer, 0) : collective.receive(word.view(), 0, 0);
    const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
    while (!transfer->advance()) {
      if (early != nullptr) early->advance();
      ASSERT_LT(Clock::now(), deadline) << "a transfer waits for a collective";
      std::this_thread::yield();
    }
  }
  if (rank != 0) start();
  finish_all(reductions, collective);
  EXPECT_EQ(word.at(0), 42);
  expect_same(batch.output(0), combination(ReduceOp::kSum, DType::kI32, size, 400), "the sum");
}

}  // namespace

void add_transfer_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"TransferOfEveryDType", passes_around_every_dtype});
  cases.push_back({"TransferOfSeveralMebibytes", passes_around_several_mebibytes});
  cases.push_back({"TransfersOfOnePairAndTagKeepTheirOrder", keeps_pairs_and_tags_apart});
  cases.push_back({"TransfersOfSeveralTagsAreReceivedInAnyOrder", receives_tags_in_any_order});
  cases.push_back({"TransfersWaitForEitherSide", waits_for_either_side});
  cases.push_back({"TransfersThatDoNotMatchFailOnBothSides", refuses_what_does_not_match});
  cases.push_back({"TransfersManyAtOnce", serves_many_at_once});
  cases.push_back({"TransfersStandOutsideTheOrder", stands_outside_the_order_of_collectives});
}

}  // namespace hvd::engine::test
