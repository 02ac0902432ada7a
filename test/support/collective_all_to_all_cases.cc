#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test/support/collective_cases.h"

namespace hvd::engine::test {
namespace {

// Bytes of a slice from one rank to another.
using Lengths = std::function<std::int64_t(std::int64_t slice, Rank from, Rank to)>;

// The bytes that go from one rank to another.
TypedArray parcel(std::int64_t slice, Rank from, Rank to, std::int64_t bytes) {
  return marked_array(DType::kU8, from, slice * 64 + to, bytes);
}

void append(TypedArray& whole, std::int64_t& done, const TypedArray& part) {
  std::copy_n(static_cast<const std::byte*>(part.data()), part.bytes(),
              static_cast<std::byte*>(whole.data()) + done);
  done += part.numel();
}

struct Exchanging {
  std::deque<TypedArray> inputs;
  std::deque<TypedArray> outputs;
  std::vector<TypedArray> expected;
  std::vector<ExchangeSlice> slices;
};

void add_slice(Exchanging& all, std::int64_t slice, const Lengths& length, Rank rank, int size) {
  ExchangeSlice& described = all.slices.emplace_back();
  for (Rank peer = 0; peer < size; ++peer) {
    described.bytes_to.push_back(static_cast<std::size_t>(length(slice, rank, peer)));
    described.bytes_from.push_back(static_cast<std::size_t>(length(slice, peer, rank)));
  }
  const auto sum = [](const std::vector<std::size_t>& bytes) {
    return static_cast<std::int64_t>(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
  };
  TypedArray& input = all.inputs.emplace_back(DType::kU8, sum(described.bytes_to));
  TypedArray& output = all.outputs.emplace_back(DType::kU8, sum(described.bytes_from));
  TypedArray& expected = all.expected.emplace_back(DType::kU8, output.numel());
  std::int64_t sent = 0;
  std::int64_t received = 0;
  for (Rank peer = 0; peer < size; ++peer) {
    append(input, sent, parcel(slice, rank, peer, length(slice, rank, peer)));
    append(expected, received, parcel(slice, peer, rank, length(slice, peer, rank)));
  }
  described.input = input.bytes() == 0 ? nullptr : input.data();
  described.output = output.bytes() == 0 ? nullptr : output.data();
}

void expect_exchanges(std::int64_t slices, const Lengths& length, Collective& collective, Rank rank,
                      int size) {
  Exchanging all;
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    add_slice(all, slice, length, rank, size);
  }
  const std::deque<TypedArray> before = all.inputs;
  const auto operation = collective.all_to_all(all.slices);
  finish(*operation, collective);
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    expect_same(all.outputs[i], all.expected[i], "output " + std::to_string(i));
    expect_same(all.inputs[i], before[i], "input " + std::to_string(i));
  }
}

void exchanges_ragged_parts(Collective& collective, Rank rank, int size) {
  const Lengths ragged = [](std::int64_t slice, Rank from, Rank to) {
    return (from * 7 + to * 5 + slice * 3) % 23 - (from + to) % 2;
  };
  const Lengths clamped = [&](auto... where) {
    return std::max<std::int64_t>(0, ragged(where...));
  };
  expect_exchanges(20, clamped, collective, rank, size);
}

void exchanges_equal_parts(Collective& collective, Rank rank, int size) {
  expect_exchanges(
      3, [](auto slice, Rank, Rank) { return 16 * slice + 8; }, collective, rank, size);
}

void gathers_to_every_root(Collective& collective, Rank rank, int size) {
  for (Rank root = 0; root < size; ++root) {
    const Lengths gather = [root](std::int64_t, Rank from, Rank to) {
      return to == root ? 100 + from : 0;
    };
    expect_exchanges(2, gather, collective, rank, size);
  }
}

void scatters_from_every_root(Collective& collective, Rank rank, int size) {
  for (Rank root = 0; root < size; ++root) {
    const Lengths scatter = [root](std::int64_t slice, Rank from, Rank to) {
      return from == root ? 60 + to * 8 + slice : 0;
    };
    expect_exchanges(2, scatter, collective, rank, size);
  }
}

void exchanges_nothing(Collective& collective, Rank rank, int size) {
  const Lengths none = [](auto, Rank, Rank) { return 0; };
  expect_exchanges(0, none, collective, rank, size);
  expect_exchanges(2, none, collective, rank, size);
}

void exchanges_several_mebibytes(Collective& collective, Rank rank, int size) {
  const Lengths large = [](std::int64_t slice, Rank from, Rank to) {
    return slice == 1 ? 3 : 900'001 + from * 100'003 + to * 50'021;
  };
  expect_exchanges(3, large, collective, rank, size);
}

}  // namespace

void add_all_to_all_cases(std::vector<CollectiveCase>& cases) {
  cases.push_back({"AllToAllOfRaggedParts", exchanges_ragged_parts});
  cases.push_back({"AllToAllOfEqualParts", exchanges_equal_parts});
  cases.push_back({"AllToAllAsGatherToEveryRoot", gathers_to_every_root});
  cases.push_back({"AllToAllAsScatterFromEveryRoot", scatters_from_every_root});
  cases.push_back({"AllToAllOfNothing", exchanges_nothing});
  cases.push_back({"AllToAllOfSeveralMebibytes", exchanges_several_mebibytes});
}

}  // namespace hvd::engine::test
