#include "core/negotiate/messages/announcement.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

using test::gradient;

TEST(MergeVariants, CountsEqualRequestsAndKeepsTheLowestRank) {
  Variants variants;
  merge(variants, {gradient("w"), 3, 2});
  merge(variants, {gradient("w"), 1, 1});
  EXPECT_EQ(variants, (Variants{{gradient("w"), 1, 3}}));
}

TEST(MergeVariants, KeepsTwoAndCountsFurtherOnesWithTheSecond) {
  Variants variants;
  merge(variants, {gradient("w", 1), 0, 1});
  merge(variants, {gradient("w", 2), 1, 1});
  merge(variants, {gradient("w", 3), 2, 4});
  EXPECT_EQ(variants, (Variants{{gradient("w", 1), 0, 1}, {gradient("w", 2), 1, 5}}));
}

Announcement full_announcement() {
  Announcement announcement;
  announcement.applied = 41;
  announcement.slots = {7, 0, 1000};
  announcement.eager = {{7, 2, Bytes(9, std::byte{5})}, {0, 1, {}}};
  announcement.names = {{{gradient("a"), 1, 2}}, {{gradient("b"), 1, 1}, {gradient("b", 9), 2, 1}}};
  announcement.leaving = {{3, 32}};
  announcement.absences = {{4, "late", std::chrono::seconds(15), {2, 5}}};
  announcement.joined = {{0, 3, true}, {2, 1, false}};
  announcement.finished = {17, 1ull << 40};
  announcement.rank_statuses = {{2, 3, 99, "something else", 2, "w", 98, {0, 5}, "train.py:12"}};
  return announcement;
}

TEST(Announcement, SurvivesTheWireIntoUsedStorage) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, full_announcement());
  Announcement back;
  back.slots = {9, 9, 9, 9, 9};
  back.leaving = {{1, 0}, {2, 7}};
  back.eager = {{1, 1, Bytes(3)}};
  ByteReader in(bytes);
  serialize(in, back);
  EXPECT_EQ(back, full_announcement());
}

TEST(Announcement, ThrowsOnEveryTruncationAndOnTrailingBytes) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, full_announcement());
  Announcement back;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader in({bytes.data(), size});
    EXPECT_THROW(serialize(in, back), PeerLostError) << size;
  }
  bytes.push_back(std::byte{0});
  ByteReader in(bytes);
  EXPECT_THROW(serialize(in, back), PeerLostError);
}

TEST(Announcement, RefusesVariantsOfTwoNamesOrProcessSets) {
  Request elsewhere = gradient("a");
  elsewhere.set = 1;
  for (const Request& other : {gradient("b"), elsewhere}) {
    Announcement announcement;
    announcement.names = {{{gradient("a"), 0, 1}, {other, 1, 1}}};
    Bytes bytes;
    ByteWriter out(bytes);
    serialize(out, announcement);
    ByteReader in(bytes);
    EXPECT_THROW(serialize(in, announcement), PeerLostError);
  }
}

}  // namespace
}  // namespace hvd::engine
