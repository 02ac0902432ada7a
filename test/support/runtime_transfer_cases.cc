// Sends and receives through a Runtime.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

using Floats = std::vector<float>;

void pair_up_by_rank_and_tag(const RuntimePlace& at) {
  std::vector<Handle> handles;
  std::vector<std::pair<Values<float>, float>> expected;
  for (Rank peer = 0; peer < at.size; ++peer) {
    for (int i = 0; i < 4; ++i) {
      for (int tag = 0; tag < 3; ++tag) {
        const auto mark = [&](Rank from, Rank to) {
          return static_cast<float>(((from * 10 + to) * 10 + tag) * 10 + i);
        };
        const auto got = shared<float>({-1, -1});
        expected.emplace_back(got, mark(peer, at.rank));
        // The two ends come in different orders.
        const auto sent = shared<float>({mark(at.rank, peer), 0});
        handles.push_back(at.runtime.submit(send(sent, peer, tag, at.device)));
        handles.push_back(at.runtime.submit(receive(got, peer, tag, at.device)));
      }
    }
  }
  for (const Handle& handle : handles) handle.wait();
  for (const auto& [got, mark] : expected) EXPECT_EQ(*got, (Floats{mark, 0}));
}

void move_beside_collectives(const RuntimePlace& at) {
  const auto early = shared<float>({0});
  const Handle pending = at.runtime.submit(receive(early, at.previous(), 7, at.device));
  for (int i = 0; i < 20; ++i) {
    const auto sum = shared<float>({1});
    at.runtime.submit(allreduce("x", sum, ReduceOp::kSum, at.device)).wait();
    EXPECT_EQ(sum->front(), static_cast<float>(at.size));
  }
  EXPECT_FALSE(pending.done());
  meet(at, "before the sends");
  const auto sent = at.runtime.submit(send(shared<float>({5}), at.next(), 7, at.device));
  pending.wait();
  sent.wait();
  EXPECT_EQ(early->front(), 5);
}

void to_oneself(const RuntimePlace& at) {
  const auto got = shared<float>({0});
  const Handle sent = at.runtime.submit(send(shared<float>({3}), at.rank, 0, at.device));
  EXPECT_FALSE(sent.wait_for(std::chrono::milliseconds(20)));
  at.runtime.submit(receive(got, at.rank, 0, at.device)).wait();
  sent.wait();
  EXPECT_EQ(got->front(), 3);
}

void a_mismatch_fails_both_ends(const RuntimePlace& at) {
  const auto got = shared<float>({0});
  if (at.rank == 0) {
    EXPECT_THROW(at.runtime.submit(send(shared<float>({1, 2}), 1, 1, at.device)).wait(),
                 MismatchError);
    at.runtime.submit(send(shared<float>({4}), 1, 2, at.device)).wait();
  } else if (at.rank == 1) {
    const Handle good = at.runtime.submit(receive(got, 0, 2, at.device));
    EXPECT_THROW(at.runtime.submit(receive(shared<float>({0}), 0, 1, at.device)).wait(),
                 MismatchError);
    good.wait();
    EXPECT_EQ(got->front(), 4);
  }
  EXPECT_TRUE(at.runtime.stopped().ok());
}

void are_refused_before_they_start(const RuntimePlace& at) {
  const auto value = shared<float>({1});
  EXPECT_THROW(at.runtime.submit(send(value, at.size, 0, at.device)), InvalidArgumentError);
  EXPECT_THROW(at.runtime.submit(receive(value, 1, -1, at.device)), InvalidArgumentError);
  const DeviceKind other = at.device == DeviceKind::kCuda ? DeviceKind::kCpu : DeviceKind::kCuda;
  EXPECT_THROW(at.runtime.submit(send(value, 1, 0, other)), UnsupportedError);
}

void keep_tensors_alive(const RuntimePlace& at) {
  auto values = shared<float>({1});
  const std::weak_ptr<Floats> alive = values;
  const Handle handle = at.runtime.submit(send(values, at.next(), 0, at.device));
  values.reset();
  EXPECT_FALSE(alive.expired());
  meet(at, "before the receives");
  at.runtime.submit(receive(shared<float>({0}), at.previous(), 0, at.device)).wait();
  handle.wait();
  EXPECT_TRUE(alive.expired());
}

// More than rings and MPI's buffers hold.
void move_mebibytes_both_ways(const RuntimePlace& at) {
  const std::size_t numel = 1'500'001;
  const auto mine = shared(Floats(numel, static_cast<float>(at.rank)));
  const auto got = shared(Floats(numel, -1));
  const Handle sent = at.runtime.submit(send(mine, at.next(), 3, at.device));
  const Handle received = at.runtime.submit(receive(got, at.previous(), 3, at.device));
  received.wait();
  sent.wait();
  EXPECT_EQ(*got, Floats(numel, static_cast<float>(at.previous())));
}

}  // namespace

void add_runtime_transfer_cases(RuntimeCases& cases) {
  cases.push_back({"TransfersPairUpByRankAndTagInOrder", pair_up_by_rank_and_tag});
  cases.push_back({"TransfersMoveBesideCollectives", move_beside_collectives});
  cases.push_back({"TransfersToOneselfNeedOnlyBothEnds", to_oneself});
  cases.push_back({"AMismatchFailsBothEndsOfATransferAndNothingElse", a_mismatch_fails_both_ends});
  cases.push_back({"TransfersAreRefusedBeforeTheyStart", are_refused_before_they_start});
  cases.push_back({"TransfersKeepTensorsAliveUntilTheyEnd", keep_tensors_alive});
  cases.push_back({"TransfersMoveMebibytesBothWays", move_mebibytes_both_ways});
}

}  // namespace hvd::engine::test
