#include "ops/connect/introduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/ops/connect/other_values.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

Config config_with(const std::string& name, const std::string& value) {
  Config config;
  take_from_rank_zero(config, name, value);
  return config;
}

// What ranks with these values of a setting tell each other.
std::vector<ChosenValues> ranks_with(const std::string& name,
                                     const std::vector<std::string>& values) {
  std::vector<ChosenValues> ranks;
  for (const std::string& value : values) {
    ranks.push_back(chosen_values(terms_of(config_with(name, value))));
  }
  return ranks;
}

std::string refusal(std::span<const Term> terms, std::span<const ChosenValues> ranks) {
  return message_of<InvalidArgumentError>([&] { expect_agreement(terms, ranks); });
}

TEST(Terms, AreAllSettingsExceptThoseThatAreEachRanksOwn) {
  std::size_t expected = 0;
  for (const SettingInfo& row : describe_settings(Config{})) {
    if (row.agreement != Agreement::kPerRank) ++expected;
  }
  EXPECT_EQ(terms_of(Config{}).size(), expected);
  EXPECT_THAT(chosen_values(terms_of(Config{})), ElementsAre());
  EXPECT_THAT(chosen_values(terms_of(config_with("HVD_CONTROL_PLANE", "mpi"))),
              ElementsAre(Pair("HVD_CONTROL_PLANE", "mpi")));
}

class EqualSetting : public ::testing::TestWithParam<SettingInfo> {};

TEST_P(EqualSetting, IsRefusedWhereItDiffersWithTheRanksThatHaveEachValue) {
  const auto& [name, value, standard, source, meaning, agreement] = GetParam();
  const std::string other = other_value(GetParam());
  ASSERT_NE(other, "");
  const auto ranks = ranks_with(name, {other, standard, other, other});
  // Whatever rank looks.
  for (const std::string& mine : {standard, other}) {
    EXPECT_THAT(refusal(terms_of(config_with(name, mine)), ranks),
                HasSubstr(name + " is '" + other + "' on ranks 0, 2, 3 and '" + standard +
                          "' (the default) on rank 1"));
  }
}

TEST_P(EqualSetting, IsFineWhereItDoesNot) {
  const std::string other = other_value(GetParam());
  const auto ranks = ranks_with(GetParam().name, {other, other});
  EXPECT_NO_THROW(expect_agreement(terms_of(config_with(GetParam().name, other)), ranks));
}

INSTANTIATE_TEST_SUITE_P(Agreement, EqualSetting,
                         ::testing::ValuesIn(settings_with(Agreement::kEqual)), NameOfSetting());

class SettingOfRankZero : public ::testing::TestWithParam<SettingInfo> {
 protected:
  // The row after a rank that has `mine` adopted what `ranks` told.
  SettingInfo adopted(const std::string& mine, Rank rank, std::span<const ChosenValues> ranks) {
    Config config = config_with(GetParam().name, mine);
    EXPECT_NO_THROW(expect_agreement(terms_of(config), ranks));
    adopt(config, rank, terms_of(config), ranks);
    for (const SettingInfo& row : describe_settings(config)) {
      if (row.name == GetParam().name) return row;
    }
    return {};
  }
};

TEST_P(SettingOfRankZero, HoldsOnAllRanks) {
  const std::string standard = GetParam().default_value;
  const std::string other = other_value(GetParam());
  ASSERT_NE(other, "");
  const auto ranks = ranks_with(GetParam().name, {other, standard});
  EXPECT_EQ(adopted(other, 0, ranks).value, other);
  EXPECT_EQ(adopted(standard, 1, ranks).value, other);
  EXPECT_EQ(adopted(standard, 1, ranks).source, "rank 0");
}

TEST_P(SettingOfRankZero, IsWarnedOfOnceWhereAnotherRankChoseItInVain) {
  const std::string standard = GetParam().default_value;
  const std::string other = other_value(GetParam());
  const auto ranks = ranks_with(GetParam().name, {standard, other});
  for (const Rank rank : {0, 1}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(adopted(rank == 0 ? standard : other, rank, ranks).value, standard);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const auto warning =
        HasSubstr(GetParam().name + ": rank 0's value holds on all ranks; it is '" + standard +
                  "' (the default) on rank 0 and '" + other + "' on rank 1");
    if (rank == 0) {
      EXPECT_THAT(said, warning);
    } else {
      EXPECT_EQ(said, "");
    }
  }
  // Who chose nothing has nothing to be told.
  ::testing::internal::CaptureStderr();
  adopted(other, 0, ranks_with(GetParam().name, {other, standard}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

INSTANTIATE_TEST_SUITE_P(Agreement, SettingOfRankZero,
                         ::testing::ValuesIn(settings_with(Agreement::kRankZero)), NameOfSetting());

TEST(Agreement, NamesEverythingThatDiffersInOneError) {
  Config config;
  const auto terms = terms_of(config);
  const std::vector<ChosenValues> ranks = {
      {}, {{"HVD_CONTROL_PLANE", "mpi"}, {"HOROVOD_DETERMINISTIC", "1"}}};
  EXPECT_THAT(
      refusal(terms, ranks),
      AllOf(HasSubstr("HVD_CONTROL_PLANE is 'tcp' (the default) on rank 0 and 'mpi' on rank 1"),
            HasSubstr("HOROVOD_DETERMINISTIC is"), HasSubstr("mpirun those that -x"),
            Not(HasSubstr("HOROVOD_CONTROLLER"))));
}

TEST(Agreement, ConcernsArgumentsOfInitToo) {
  const std::vector<Term> terms = {{"process_sets of init()", "[]", "[]", Agreement::kEqual}};
  EXPECT_NO_THROW(expect_agreement(terms, std::vector<ChosenValues>(3)));
  EXPECT_THAT(
      refusal(terms, std::vector<ChosenValues>{{}, {{"process_sets of init()", "[[0, 1]]"}}}),
      HasSubstr("process_sets of init() is '[]' (the default) on rank 0 and '[[0, 1]]' on rank 1"));
}

}  // namespace
}  // namespace hvd::engine::test
