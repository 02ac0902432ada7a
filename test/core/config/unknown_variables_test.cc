#include "core/config/unknown_variables.h"

#include <vector>

#include <gtest/gtest.h>

namespace hvd {
namespace {

const std::vector<std::string> kNames = {"HVD_STATS", "HOROVOD_FUSION_THRESHOLD", "HVD_ISA"};

TEST(DidYouMean, NamesTheNearest) {
  EXPECT_EQ(did_you_mean("HVD_STAT", kNames), "; did you mean HVD_STATS?");
  EXPECT_EQ(did_you_mean("HVD_IAS", kNames), "; did you mean HVD_ISA?");
  EXPECT_EQ(did_you_mean("HVD_FUSION_THRESHOLD", kNames),
            "; did you mean HOROVOD_FUSION_THRESHOLD?");
}

TEST(DidYouMean, NamesWhatBeginsWithIt) {
  const std::vector<std::string> names = {"--time", "--timeline-filename",
                                          "--timeline-mark-cycles"};
  EXPECT_EQ(did_you_mean("--timeline", names), "; did you mean --timeline-filename?");
  EXPECT_EQ(did_you_mean("--", names), "");
}

TEST(DidYouMean, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(did_you_mean("HVD_TEMPERATURE", kNames), "");
  EXPECT_EQ(did_you_mean("HVD_STAT", {}), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
}

TEST(DidYouMean, TakesTheFirstOfSeveral) {
  const std::vector<std::string> names = {"aaab", "aaac"};
  EXPECT_EQ(did_you_mean("aaad", names), "; did you mean aaab?");
}

}  // namespace
}  // namespace hvd
