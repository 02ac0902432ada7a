#include "ops/connect/introduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/config/build_identity.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

Introduction example() {
  return {build_and_layout(), "name", "name and boot", {42, 4711}, {{"HVD_X", "1"}}};
}

std::string refusal(const std::vector<std::string>& texts) {
  return message_of<UnsupportedError>([&] { decode_introductions(texts); });
}

TEST(BuildIdentity, IsTheVersionAndAHashOfTheSources) {
  EXPECT_THAT(build_identity(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+-[0-9a-f]{12}"));
  EXPECT_THAT(build_and_layout(), StartsWith(build_identity()));
}

TEST(Introduction, TravelsAsItIs) {
  const std::vector<std::string> texts(2, encode(example()));
  for (const Introduction& got : decode_introductions(texts)) {
    EXPECT_EQ(got.build, build_and_layout());
    EXPECT_EQ(got.host, "name");
    EXPECT_EQ(got.identity, "name and boot");
    EXPECT_EQ(got.process, (ProcessId{42, 4711}));
    EXPECT_EQ(got.chosen, (ChosenValues{{"HVD_X", "1"}}));
  }
}

TEST(Introduction, OfAnotherBuildIsRefusedWithTheRanksOfEach) {
  Introduction other = example();
  other.build = "0.1.0-000000000000 (layout x)";
  const std::string mine = encode(example());
  EXPECT_THAT(refusal({mine, mine, encode(other), mine}),
              AllOf(HasSubstr(build_and_layout() + " on rank(s) 0, 1, 3"),
                    HasSubstr(other.build + " on rank(s) 2"), HasSubstr("the same sources")));
}

TEST(Introduction, OfABuildThatSaysMoreAfterItsNameIsRefusedByItsName) {
  Introduction other = example();
  other.build = "0.2.0-000000000000 (layout x)";
  EXPECT_THAT(refusal({encode(example()), encode(other) + "more"}), HasSubstr("0.2.0-0000"));
}

TEST(Introduction, OfTheTimeBeforeVersionsIsRefused) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_string("host 4c5e-boot");
  writer.put_string("host");
  writer.put(std::int64_t{42});
  writer.put(std::uint64_t{4711});
  writer.put(std::uint8_t{1});
  writer.put_string("none");
  const std::string old(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_THAT(refusal({encode(example()), old}),
              AllOf(HasSubstr("does not give its version on rank(s) 1"),
                    HasSubstr(build_and_layout() + " on rank(s) 0")));
}

TEST(Introduction, ThatIsCutOffIsBlamedOnItsRank) {
  const std::string whole = encode(example());
  const std::string cut = whole.substr(0, whole.size() - 1);
  EXPECT_THAT(message_of<PeerLostError>([&] {
                decode_introductions(std::vector{whole, cut});
              }),
              HasSubstr("the introduction of rank 1"));
}

}  // namespace
}  // namespace hvd::engine::test
