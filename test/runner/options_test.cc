#include "runner/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;

TEST(ParseOptions, SplitsAtTheProgramAndLeavesItsOptionsAlone) {
  const Options options = parse_options(
      Words{"-np", "2", "python", "train.py", "-np", "7", "--verbose", "-H", "x", "--", "--help"});
  EXPECT_EQ(options.np, 2);
  EXPECT_FALSE(options.verbose);
  EXPECT_FALSE(options.help);
  EXPECT_TRUE(options.hosts.empty());
  EXPECT_THAT(options.command, ElementsAre("python", "train.py", "-np", "7", "--verbose", "-H", "x",
                                           "--", "--help"));
}

TEST(ParseOptions, TakesEveryOption) {
  const Options options =
      parse_options(Words{"--verbose", "-H", "a:1,b:2", "--timeline-filename", "t.json",
                          "--fusion-threshold-mb", "0.5", "-np", "3", "./x"});
  EXPECT_EQ(options.np, 3);
  EXPECT_THAT(options.hosts, ElementsAre(HostSlots{"a", 1}, HostSlots{"b", 2}));
  EXPECT_EQ(options.timeline_filename, "t.json");
  EXPECT_EQ(options.fusion_threshold, std::size_t{512 * 1024});
  EXPECT_TRUE(options.verbose);
}

class SpellingsOfNp : public testing::TestWithParam<Words> {};

TEST_P(SpellingsOfNp, MeanTheSame) {
  Words words = GetParam();
  words.push_back("./x");
  EXPECT_EQ(parse_options(words).np, 12);
}

INSTANTIATE_TEST_SUITE_P(Each, SpellingsOfNp,
                         testing::Values(Words{"-np", "12"}, Words{"--np", "12"}, Words{"-np=12"},
                                         Words{"--np=12"}));

TEST(ParseOptions, TakesSingleDashForLongNames) {
  const Options options = parse_options(Words{"-hosts", "a:1", "-verbose", "-np", "1", "./x"});
  EXPECT_THAT(options.hosts, ElementsAre(HostSlots{"a", 1}));
  EXPECT_TRUE(options.verbose);
}

TEST(ParseOptions, EndsItsOptionsAtTwoDashes) {
  EXPECT_THAT(parse_options(Words{"-np", "1", "--", "-odd", "--"}).command,
              ElementsAre("-odd", "--"));
}

TEST(ParseOptions, TakesASingleDashAndArgumentsWithBlanksAsTheProgramsOwn) {
  EXPECT_THAT(parse_options(Words{"-np", "1", "-", "a b", ""}).command,
              ElementsAre("-", "a b", ""));
}

TEST(ParseOptions, LeavesFusionAloneUnlessAskedAndZeroTurnsItOff) {
  EXPECT_FALSE(parse_options(Words{"-np", "1", "x"}).fusion_threshold.has_value());
  EXPECT_EQ(parse_options(Words{"--fusion-threshold-mb", "0", "-np", "1", "x"}).fusion_threshold,
            std::size_t{0});
}

TEST(ParseOptions, NeedsNoProgramToTellAboutItself) {
  EXPECT_TRUE(parse_options(Words{"--help"}).help);
  EXPECT_TRUE(parse_options(Words{"-h"}).help);
  EXPECT_TRUE(parse_options(Words{"--version"}).version);
  EXPECT_TRUE(parse_options(Words{"--check-build"}).check_build);
}

TEST(ParseOptions, AllowsAsManyRanksAsThereAreSlots) {
  EXPECT_EQ(parse_options(Words{"-np", "3", "-H", "a:1,b:2", "x"}).np, 3);
}

struct BadCase {
  const char* name;
  Words words;
  const char* says;
};

class BadCommandLine : public testing::TestWithParam<BadCase> {};

TEST_P(BadCommandLine, IsRefusedNamingTheOption) {
  try {
    parse_options(GetParam().words);
    FAIL() << "accepted";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadCommandLine,
    testing::Values(
        BadCase{"NpZero", {"-np", "0", "x"}, "-np: '0'"},
        BadCase{"NpNegative", {"-np", "-1", "x"}, "-np: '-1'"},
        BadCase{"NpNotANumber", {"-np", "x", "y"}, "-np: 'x'"},
        BadCase{"NpFraction", {"-np", "2.5", "y"}, "-np: '2.5'"},
        BadCase{"NpHuge", {"-np", "99999999999999", "y"}, "-np: '99999999999999'"},
        BadCase{"NpWithoutValue", {"-np"}, "-np: needs a value"},
        BadCase{"NpEmpty", {"-np", "", "x"}, "-np: the value is empty"},
        BadCase{"NpMissing", {"x"}, "-np: missing"},
        BadCase{"NpTwice", {"-np", "1", "-np", "2", "x"}, "np"},
        BadCase{"Nothing", {}, "-np: missing"},
        BadCase{"ProgramMissing", {"-np", "2"}, "no program given"},
        BadCase{"ProgramMissingAfterDashes", {"-np", "2", "--"}, "no program given"},
        BadCase{"ProgramEmpty", {"-np", "2", ""}, "program's name is empty"},
        BadCase{"HostsWithoutSlots", {"-H", "h:0", "-np", "1", "x"}, "-H: 'h:0'"},
        BadCase{"MoreRanksThanSlots", {"-np", "4", "-H", "a:1,b:2", "x"}, "-np 4: more ranks"},
        BadCase{"UnknownLong", {"--foo", "-np", "2", "x"}, "unknown option --foo"},
        BadCase{"UnknownShort", {"-q", "-np", "2", "x"}, "unknown option -q"},
        BadCase{"AbbreviationOfALongName", {"--verb", "-np", "2", "x"}, "unknown option --verb"},
        BadCase{"ShortNameWithTwoDashes", {"--H", "a:1", "-np", "1", "x"}, "unknown option --H"},
        BadCase{"FlagWithValue", {"--verbose=1", "-np", "2", "x"}, "--verbose: takes no value"},
        BadCase{"FusionNegative",
                {"--fusion-threshold-mb", "-1", "-np", "1", "x"},
                "--fusion-threshold-mb: '-1'"},
        BadCase{"FusionNan",
                {"--fusion-threshold-mb", "nan", "-np", "1", "x"},
                "--fusion-threshold-mb: 'nan'"},
        BadCase{"FusionNotANumber",
                {"--fusion-threshold-mb", "64MB", "-np", "1", "x"},
                "--fusion-threshold-mb: '64MB'"},
        BadCase{"TimelineEmpty", {"--timeline-filename=", "-np", "1", "x"}, "--timeline-filename"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(HelpText, NamesEveryOptionAndShowsExamples) {
  const std::string text = help_text();
  for (const char* option : {"-np", "-H", "--timeline-filename", "--fusion-threshold-mb",
                             "--verbose", "--check-build", "--version", "--help"}) {
    EXPECT_THAT(text, HasSubstr(option));
  }
  EXPECT_THAT(text, HasSubstr("hvdrun -np 2 python train.py"));
}

}  // namespace
}  // namespace hvd::runner
