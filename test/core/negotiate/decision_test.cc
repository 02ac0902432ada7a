#include "core/negotiate/decision.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::shared;

Bytes encoded(const Decision& decision) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, decision);
  return bytes;
}

Decision full_decision() {
  Decision decision;
  decision.number = 12;
  decision.slots = {4, 5, 6};
  NegotiationSettings settings;
  settings.fusion_threshold = 99;
  settings.deterministic = true;
  settings.eager_bytes = 77;
  decision.steps = {ChangeSettings{settings},
                    DefineSlot{4, shared(gradient("w")), true},
                    RunSlots{0, 1, Bytes(3, std::byte{7})},
                    RejectName{3, "v", {StatusCode::kMismatch, "no"}, 5},
                    EvictSlot{2},
                    RunSlots{1, 2},
                    JoinRank{{2, 1, true}},
                    Ask{},
                    Stop{{StatusCode::kAborted, "left"}}};
  return decision;
}

TEST(Decision, SurvivesTheWireIntoUsedStorage) {
  const Bytes bytes = encoded(full_decision());
  Decision back = full_decision();
  ByteReader in(bytes);
  serialize(in, back);
  EXPECT_EQ(back.number, 12u);
  ASSERT_EQ(back.steps.size(), 9u);
  EXPECT_EQ(std::get<ChangeSettings>(back.steps[0]).settings.fusion_threshold, 99u);
  EXPECT_EQ(*std::get<DefineSlot>(back.steps[1]).request, gradient("w"));
  EXPECT_TRUE(std::get<DefineSlot>(back.steps[1]).once);
  EXPECT_EQ(std::get<ChangeSettings>(back.steps[0]).settings.eager_bytes, 77u);
  EXPECT_EQ(std::get<RunSlots>(back.steps[2]).result, Bytes(3, std::byte{7}));
  EXPECT_EQ(std::get<RejectName>(back.steps[3]).set, 3u);
  EXPECT_EQ(std::get<RejectName>(back.steps[3]).why, Status(StatusCode::kMismatch, "no"));
  EXPECT_EQ(std::get<RejectName>(back.steps[3]).others, 5u);
  const auto run = back.slots_of(std::get<RunSlots>(back.steps[5]));
  EXPECT_EQ(std::vector<SlotNumber>(run.begin(), run.end()), (std::vector<SlotNumber>{5, 6}));
  EXPECT_EQ(std::get<JoinRank>(back.steps[6]).joining, (Joining{2, 1, true}));
  EXPECT_EQ(encoded(back), bytes);
}

TEST(Decision, ThrowsOnEveryTruncation) {
  const Bytes bytes = encoded(full_decision());
  Decision back;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader in({bytes.data(), size});
    EXPECT_THROW(serialize(in, back), PeerLostError) << size;
  }
}

TEST(Decision, RefusesAnUnknownStep) {
  Decision decision;
  decision.steps = {Ask{}};
  Bytes bytes = encoded(decision);
  bytes.back() = std::byte{8};
  ByteReader in(bytes);
  EXPECT_THROW(serialize(in, decision), PeerLostError);
}

}  // namespace
}  // namespace hvd::engine
