#include "core/negotiate/messages/request.h"

#include <limits>

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

TEST(CallName, AGroupIsNamedAfterItsFirstTensorAndCountsTheOthers) {
  EXPECT_EQ(group_name("c1.weight", 1), "c1.weight");
  EXPECT_EQ(group_name("c1.weight", 8), "c1.weight and 7 more");
  EXPECT_EQ(quoted_name(group_name("c1.weight", 8)), "'c1.weight' and 7 more");
}

TEST(CallName, TheFirstOptimizerNeedsNoNumber) {
  EXPECT_EQ(unique_suffix("optimizer", 1), "");
  EXPECT_EQ(unique_suffix("optimizer", 3), " (optimizer 3)");
}

TEST(CallName, PeopleReadNameAndKind) {
  EXPECT_EQ(readable_name("allreduce.metric"), "'metric' (allreduce)");
  EXPECT_EQ(readable_name("allreduce.c1.weight and 7 more"), "'c1.weight' and 7 more (allreduce)");
  EXPECT_EQ(readable_name("set2.broadcast.x"), "'x' (broadcast of process set 2)");
  EXPECT_EQ(readable_name("add process set.noname.0"), "unnamed call 0 (add process set)");
  EXPECT_EQ(readable_name("set2.allreduce.noname.12"),
            "unnamed call 12 (allreduce of process set 2)");
  EXPECT_EQ(readable_name("broadcast.noname"), "an unnamed call (broadcast)");
  EXPECT_EQ(readable_name("broadcast.noname.x"), "'noname.x' (broadcast)");
  EXPECT_EQ(readable_name("broadcast.nonames"), "'nonames' (broadcast)");
  EXPECT_EQ(readable_name("allreduce.18.weight and 3 more (optimizer 2)"),
            "'18.weight' and 3 more (optimizer 2) (allreduce)");
  EXPECT_EQ(readable_name("allreduce.18.weight (optimizer 2)"),
            "'18.weight' (optimizer 2) (allreduce)");
  EXPECT_EQ(readable_name("allreduce.w and 2 more.float16"), "'w' and 2 more.float16 (allreduce)");
}

TEST(CallName, WhatSaysNoKindIsQuotedAsItIs) {
  EXPECT_EQ(readable_name("shared"), "'shared'");
  EXPECT_EQ(readable_name("set3.shared"), "'shared' (process set 3)");
  EXPECT_EQ(readable_name("setting.x"), "'setting.x'");
  EXPECT_EQ(readable_name("allreduce."), "'allreduce.'");
  EXPECT_EQ(readable_name("allreduces.x"), "'allreduces.x'");
  EXPECT_EQ(readable_name(""), "''");
}

TEST(CallName, WordsOfACallersNameStayInsideTheQuotes) {
  EXPECT_EQ(quoted_name("bread and more"), "'bread and more'");
  EXPECT_EQ(quoted_name(" and 7 more"), "' and 7 more'");
  EXPECT_EQ(quoted_name("x (copy)"), "'x (copy)'");
  EXPECT_EQ(quoted_name("seven more"), "'seven more'");
}

using test::gradient;

Request full_request() {
  Request request = gradient("layer.weight", 3, DType::kBF16);
  request.kind = CollectiveKind::kBroadcast;
  request.device = DeviceKind::kCuda;
  request.op = ReduceOp::kMax;
  request.root = 5;
  request.set = 3;
  request.prescale = 0.5;
  request.postscale = -2.0;
  request.wire = WireFormat::kInt8;
  request.shapes = {{2, 0, 7}, {}, {9}};
  request.numbers = {1, 4};
  request.automatic_name = true;
  return request;
}

Bytes encoded(const Request& request) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, request);
  return bytes;
}

TEST(Request, SurvivesTheWire) {
  const Bytes bytes = encoded(full_request());
  ByteReader in(bytes);
  EXPECT_EQ(deserialize<Request>(in), full_request());
  in.expect_end();
}

TEST(Request, ThrowsOnEveryTruncation) {
  const Bytes bytes = encoded(full_request());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader in({bytes.data(), size});
    EXPECT_THROW(deserialize<Request>(in), PeerLostError) << size;
  }
}

TEST(Request, RefusesNegativeExtentsAndShapesWhoseBytesOverflow) {
  const Shape huge = {std::int64_t{1} << 40, std::int64_t{1} << 30};
  const Shape third = {std::int64_t{1} << 59};  // what three of a group add up to overflows
  for (const std::vector<Shape>& shapes :
       std::vector<std::vector<Shape>>{{Shape{-1}}, {huge}, {third, third, third}}) {
    Request request = gradient("w");
    request.shapes.assign(shapes.begin(), shapes.end());
    const Bytes bytes = encoded(request);
    ByteReader in(bytes);
    EXPECT_THROW(deserialize<Request>(in), PeerLostError);
  }
}

TEST(DescribeDifference, IsEmptyForEqualRequests) {
  EXPECT_EQ(describe_difference(full_request(), 0, full_request(), 1), "");
}

TEST(DescribeDifference, NamesTheFieldBothRanksAndBothValues) {
  const auto differ = [](auto change) {
    Request other = gradient("w");
    change(other);
    return describe_difference(gradient("w"), 0, other, 2);
  };
  EXPECT_EQ(differ([](Request& r) { r.dtype = DType::kF64; }),
            "dtype: float32 on rank 0, float64 on rank 2");
  EXPECT_EQ(differ([](Request& r) {
              r.shapes = {{2, 2}};
            }),
            "shape: [4] on rank 0, [2, 2] on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.kind = CollectiveKind::kAllgather; }),
            "collective: allreduce on rank 0, allgather on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.op = ReduceOp::kMin; }), "op: Sum on rank 0, Min on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.root = 1; }), "root: 0 on rank 0, 1 on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.device = DeviceKind::kCuda; }),
            "device: cpu on rank 0, cuda on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.prescale = 0.5; }),
            "prescale factor: 1 on rank 0, 0.5 on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.postscale = 0.5; }),
            "postscale factor: 1 on rank 0, 0.5 on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.wire = WireFormat::kInt8; }),
            "wire format: none on rank 0, int8 on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.set = 1; }), "process set: 0 on rank 0, 1 on rank 2");
  EXPECT_EQ(differ([](Request& r) { r.automatic_name = true; }),
            "name: given by the caller on rank 0, automatic on rank 2");
}

TEST(DescribeDifference, SaysWhichTensorOfAGroupDiffersOrHowManyThereAre) {
  Request a = gradient("g");
  a.shapes = {{4}, {8}, {2, 2}};
  Request b = a;
  b.shapes[2] = {4};
  EXPECT_EQ(describe_difference(a, 0, b, 1),
            "shape of tensor 2 of the group of 3: [2, 2] on rank 0, [4] on rank 1");
  b.shapes.pop_back();
  EXPECT_EQ(describe_difference(a, 0, b, 1),
            "number of tensors in the group: 3 on rank 0, 2 on rank 1");
}

TEST(Request, RefusesScalesThatAreNotNumbersAndJoins) {
  Request request = gradient("w");
  request.prescale = std::numeric_limits<double>::quiet_NaN();
  Request join = gradient("w");
  join.kind = CollectiveKind::kJoin;
  for (const Request& refused : {request, join}) {
    const Bytes bytes = encoded(refused);
    ByteReader in(bytes);
    EXPECT_THROW(deserialize<Request>(in), PeerLostError);
  }
}

TEST(DescribeDifference, SaysThatAllgatherMayDifferInItsFirstDimension) {
  Request a = gradient("w");
  a.kind = CollectiveKind::kAllgather;
  Request b = a;
  b.shapes = {{5}};
  EXPECT_EQ(describe_difference(a, 0, b, 1),
            "shape after the first dimension: [4] on rank 0, [5] on rank 1");
}

}  // namespace
}  // namespace hvd::engine
