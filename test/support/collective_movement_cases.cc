#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

void run_broadcast(Collective& collective, const Batch& batch, Rank root) {
  const auto operation = collective.broadcast(batch.slices(), root);
  finish(*operation, collective);
}

void broadcasts_dtype(DType dtype, Collective& collective, Rank rank, Rank root) {
  const std::vector<std::int64_t> lengths = {1, 13, 0, 300, 64};
  Batch batch;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    batch.add(marked_array(dtype, rank, number, lengths[n]), /*in_place=*/n % 2 == 1);
  }
  run_broadcast(collective, batch, root);
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    expect_same(batch.output(n), marked_array(dtype, root, number, lengths[n]),
                "output of slice " + std::to_string(n) + " from " + std::to_string(root));
    const Rank now_in_input = n % 2 == 1 ? root : rank;
    expect_same(batch.input(n), marked_array(dtype, now_in_input, number, lengths[n]), "input");
  }
}

void broadcasts_from_every_root(Collective& collective, Rank rank, int size) {
  for (const DType dtype : kAllDTypes) {
    for (Rank root = 0; root < size; ++root) broadcasts_dtype(dtype, collective, rank, root);
  }
}

void broadcasts_several_mebibytes(Collective& collective, Rank rank, int size) {
  const Rank root = size - 1;
  Batch batch;
  batch.add(marked_array(DType::kF32, rank, 0, 1'100'001));
  batch.add_nothing(DType::kF32);
  batch.add(marked_array(DType::kF32, rank, 1, 300'007), true);
  run_broadcast(collective, batch, root);
  expect_same(batch.output(0), marked_array(DType::kF32, root, 0, 1'100'001), "out of place");
  expect_same(batch.output(2), marked_array(DType::kF32, root, 1, 300'007), "in place");
}

// Slices of one fused all-gather: rank r contributes length(slice, r) bytes to each.
struct Gathering {
  std::vector<TypedArray> inputs;
  std::vector<TypedArray> outputs;
  std::vector<TypedArray> expected;
  std::vector<GatherSlice> slices;
};

using Lengths = std::function<std::int64_t(std::int64_t slice, Rank rank)>;

Gathering gathering(std::int64_t slices, const Lengths& length, Rank rank, int size) {
  Gathering all;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    GatherSlice& described = all.slices.emplace_back();
    std::int64_t total = 0;
    for (Rank from = 0; from < size; ++from) {
      described.bytes_of.push_back(static_cast<std::size_t>(length(slice, from)));
      total += length(slice, from);
    }
    TypedArray& expected = all.expected.emplace_back(DType::kU8, total);
    auto* to = static_cast<std::byte*>(expected.data());
    for (Rank from = 0; from < size; ++from) {
      const TypedArray part = marked_array(DType::kU8, from, slice, length(slice, from));
      to = std::copy_n(static_cast<const std::byte*>(part.data()), part.bytes(), to);
    }
    all.inputs.push_back(marked_array(DType::kU8, rank, slice, length(slice, rank)));
    all.outputs.emplace_back(DType::kU8, total);
  }
  for (std::size_t i = 0; i < all.slices.size(); ++i) {  // arrays no longer move
    all.slices[i].input = all.inputs[i].bytes() == 0 ? nullptr : all.inputs[i].data();
    all.slices[i].output = all.outputs[i].bytes() == 0 ? nullptr : all.outputs[i].data();
  }
  return all;
}

void expect_gathers(std::int64_t slices, const Lengths& length, Collective& collective, Rank rank,
                    int size) {
  const Gathering all = gathering(slices, length, rank, size);
  const auto operation = collective.all_gather(all.slices);
  finish(*operation, collective);
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    expect_same(all.outputs[i], all.expected[i], "slice " + std::to_string(i));
  }
}

void gathers_in_place(Collective& collective, Rank rank, int size) {
  const Lengths ragged = [](std::int64_t slice, Rank from) { return (from * 5 + slice * 3) % 17; };
  Gathering all = gathering(6, ragged, rank, size);
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const std::vector<std::size_t>& bytes_of = all.slices[i].bytes_of;
    const std::size_t first =
        std::accumulate(bytes_of.begin(), bytes_of.begin() + rank, std::size_t{0});
    auto* const place = static_cast<std::byte*>(all.outputs[i].data()) + first;
    const auto* const mine = static_cast<const std::byte*>(all.inputs[i].data());
    std::copy_n(mine, all.inputs[i].bytes(), place);
    all.slices[i].input = place;
  }
  const auto operation = collective.all_gather(all.slices);
  finish(*operation, collective);
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    expect_same(all.outputs[i], all.expected[i], "slice " + std::to_string(i));
  }
}

void gathers_equal_parts(Collective& collective, Rank rank, int size) {
  expect_gathers(
      3, [](auto slice, Rank) { return 24 * (slice + 1); }, collective, rank, size);
}

void gathers_ragged_parts(Collective& collective, Rank rank, int size) {
  const Lengths ragged = [](std::int64_t slice, Rank from) { return (from * 7 + slice * 5) % 23; };
  expect_gathers(40, ragged, collective, rank, size);
}

void gathers_from_one_rank_alone(Collective& collective, Rank rank, int size) {
  for (Rank only = 0; only < size; ++only) {
    const Lengths alone = [only](std::int64_t, Rank from) { return from == only ? 33 : 0; };
    expect_gathers(2, alone, collective, rank, size);
  }
}

void gathers_nothing(Collective& collective, Rank rank, int size) {
  expect_gathers(
      0, [](auto, Rank) { return 0; }, collective, rank, size);
  expect_gathers(
      2, [](auto, Rank) { return 0; }, collective, rank, size);
}

void gathers_several_mebibytes(Collective& collective, Rank rank, int size) {
  const Lengths large = [](std::int64_t slice, Rank from) {
    return slice == 1 ? 3 : 1'200'000 + from * 100'003;
  };
  expect_gathers(3, large, collective, rank, size);
}

void exchanges_integers(Collective& collective, Rank rank, int size) {
  for (const std::size_t each : {1u, 3u, 100u}) {
    std::vector<std::int64_t> mine(each);
    std::iota(mine.begin(), mine.end(), (std::int64_t{rank} << 40) - 1);
    std::vector<std::int64_t> all(each * static_cast<std::size_t>(size), -7);
    const auto operation = collective.exchange(mine, all);
    finish(*operation, collective);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto from = static_cast<std::int64_t>(i / each);
      ASSERT_EQ(all[i], (from << 40) - 1 + static_cast<std::int64_t>(i % each))
          << "number " << i % each << " of rank " << from;
    }
  }
}

}  // namespace

void add_movement_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"BroadcastFromEveryRoot", broadcasts_from_every_root});
  cases.push_back({"BroadcastOfSeveralMebibytes", broadcasts_several_mebibytes});
  cases.push_back({"AllGatherOfEqualParts", gathers_equal_parts});
  cases.push_back({"AllGatherOfRaggedParts", gathers_ragged_parts});
  cases.push_back({"AllGatherInPlace", gathers_in_place});
  cases.push_back({"AllGatherFromOneRankAlone", gathers_from_one_rank_alone});
  cases.push_back({"AllGatherOfNothing", gathers_nothing});
  cases.push_back({"AllGatherOfSeveralMebibytes", gathers_several_mebibytes});
  cases.push_back({"ExchangeOfIntegers", exchanges_integers});
}

}  // namespace hvd::engine::test
