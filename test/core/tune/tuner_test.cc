#include "core/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <string>

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMiB = 1 << 20;
constexpr TunedSettings kDefaults{kMiB, Duration::zero()};

double mib(const TunedSettings& settings) {
  return static_cast<double>(settings.fusion_threshold) / static_cast<double>(kMiB);
}

double gap_ms(const TunedSettings& settings) {
  return to_seconds(settings.batching_gap) * 1e3;
}

using Score = std::function<double(const TunedSettings&)>;  // bytes a microsecond

// One round of training under what the tuner wants, until it is done.
struct Tuning {
  TunedSettings chosen;
  std::vector<TunedSettings> changes;
  std::string log;
  int samples = 0;
};

Tuning tune(const Score& score, double noise = 0, unsigned seed = 1,
            const TunerOptions& options = {}, const TunedSettings& defaults = kDefaults) {
  Tuner tuner(options, defaults);
  std::mt19937 random(seed);
  std::normal_distribution<double> error(0, 1);
  Tuning run;
  while (!tuner.finished() && run.samples < 1000) {
    const double value = score(tuner.settings()) * (1 + noise * error(random));
    const auto seconds = std::chrono::duration<double>(1.0 / std::max(value, 1e-3));
    ++run.samples;
    const auto change = tuner.add(1'000'000, std::chrono::duration_cast<Duration>(seconds));
    if (change) run.changes.push_back(*change);
  }
  run.chosen = tuner.settings();
  run.log = tuner.take_log();
  return run;
}

// A hill over log(threshold) and gap, 100 at its top and about 40 far from it.
Score hill(double top_mib, double top_ms) {
  return [=](const TunedSettings& settings) {
    const double x = (std::log2(std::max(mib(settings), 0.125)) - std::log2(top_mib)) / 3;
    const double y = (gap_ms(settings) - top_ms) / 3;
    return 40 + 60 * std::exp(-(x * x + y * y) / 2);
  };
}

struct Hill {
  double mib;
  double ms;
};

class TunerFinds : public testing::TestWithParam<Hill> {};

TEST_P(TunerFinds, TheTopOfAHillWithoutNoise) {
  const Score score = hill(GetParam().mib, GetParam().ms);
  EXPECT_GT(score(tune(score).chosen), 95);
}

TEST_P(TunerFinds, NearlyTheTopOfANoisyHill) {
  const Score score = hill(GetParam().mib, GetParam().ms);
  double sum = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    sum += score(tune(score, 0.05, seed).chosen);
  }
  EXPECT_GT(sum / 10, 93);
}

INSTANTIATE_TEST_SUITE_P(Hills, TunerFinds,
                         testing::Values(Hill{32, 0}, Hill{8, 2}, Hill{64, 5}, Hill{0.25, 0},
                                         Hill{2, 9}));

TEST(Tuner, KeepsTheDefaultsWhenTheyAreBest) {
  EXPECT_EQ(tune(hill(1, 0)).chosen, kDefaults);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const Score score = hill(1, 0);
    EXPECT_GT(score(tune(score, 0.05, seed).chosen), 95) << seed;
  }
}

// The first point that is not the default looks ten times better, but only when it is new.
TEST(Tuner, NeverEndsWorseThanTheDefaultsWhenAScoreWasAFluke) {
  int samples = 0;
  const Score score = [&](const TunedSettings& settings) {
    ++samples;
    if (settings == kDefaults) return 100.0;
    return samples < 40 ? 1000.0 : 50.0;
  };
  const Tuning run = tune(score);
  EXPECT_EQ(run.chosen, kDefaults);
  EXPECT_THAT(run.log, HasSubstr("compare,0,1048576,100\n"));
}

TEST(Tuner, KeepsTheDefaultsWhenNothingMatters) {
  const Tuning run = tune([](const TunedSettings&) { return 100.0; });
  EXPECT_EQ(run.chosen, kDefaults);
}

TEST(Tuner, StopsEarlyWhenNothingImproves) {
  const Tuning run = tune([](const TunedSettings&) { return 100.0; });
  const TunerOptions options;
  EXPECT_LE(run.changes.size(), 11u);
  EXPECT_LT(run.changes.size(), options.max_points);
}

TEST(Tuner, TriesTheDefaultsFirstAndNoMorePointsThanAllowed) {
  TunerOptions options;
  options.max_points = 3;
  const Tuning run = tune(hill(64, 5), 0, 1, options);
  EXPECT_THAT(run.log, StartsWith("phase,cycle_time_ms,tensor_fusion_threshold,score\n"
                                  "default,0,1048576,"));
  std::set<std::pair<std::size_t, Duration>> points = {{kMiB, Duration::zero()}};
  for (const TunedSettings& change : run.changes) {
    points.emplace(change.fusion_threshold, change.batching_gap);
  }
  EXPECT_EQ(points.size(), 3u);
}

// What docs/settings.md says of HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES.
TEST(Tuner, TriesAtMostSixteenSettingsAndNoneTwice) {
  TunerOptions options;
  options.max_points = 1000;
  for (const double top_mib : {0.25, 1.0, 8.0, 128.0}) {
    for (const double top_ms : {0.0, 0.3, 5.0, 10.0}) {
      std::istringstream log(tune(hill(top_mib, top_ms), 0, 1, options).log);
      std::multiset<std::string> tried;  // "cycle_time_ms,tensor_fusion_threshold"
      for (std::string line; std::getline(log, line);) {
        if (!line.starts_with("default,") && !line.starts_with("search,")) continue;
        const std::size_t begin = line.find(',') + 1;
        tried.insert(line.substr(begin, line.rfind(',') - begin));
      }
      EXPECT_LE(tried.size(), 16u);
      for (const std::string& settings : tried) EXPECT_EQ(tried.count(settings), 1u) << settings;
    }
  }
}

// A default that is no power of sqrt(2) is tried as it is, and comes back if nothing is better.
TEST(Tuner, AnyDefaultIsTriedAsItIs) {
  const TunedSettings odd{3'000'000, std::chrono::microseconds(700)};
  const Tuning flat = tune([](const TunedSettings&) { return 100.0; }, 0, 1, {}, odd);
  EXPECT_EQ(flat.chosen, odd);
  EXPECT_THAT(flat.log, HasSubstr("default,0.7,3000000,100\n"));
  EXPECT_THAT(tune(hill(64, 5), 0, 1, {}, odd).log, HasSubstr("default,0.7,3000000,"));
}

TEST(Tuner, KeepsTheDefaultsWhenItMayTryNothingElse) {
  TunerOptions options;
  options.max_points = 1;
  const Tuning run = tune(hill(64, 5), 0, 1, options);
  EXPECT_EQ(run.chosen, kDefaults);
  EXPECT_TRUE(run.changes.empty());
}

TEST(Tuner, DiscardsWarmupSamples) {
  TunerOptions options;
  options.warmup_samples = 4;
  options.samples_per_point = 1;
  Tuner tuner(options, kDefaults);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(tuner.add(1, milliseconds(1)), std::nullopt);
  EXPECT_TRUE(tuner.add(1000, milliseconds(1)).has_value());
  EXPECT_THAT(tuner.take_log(), HasSubstr("default,0,1048576,1\n"));
}

TEST(Tuner, ScoresAPointByTheMedianOfItsSamples) {
  TunerOptions options;
  options.warmup_samples = 0;
  options.samples_per_point = 3;
  Tuner tuner(options, kDefaults);
  tuner.add(2000, milliseconds(1));
  tuner.add(9000, milliseconds(1));
  tuner.add(1000, milliseconds(1));
  EXPECT_THAT(tuner.take_log(), HasSubstr("default,0,1048576,2\n"));
}

TEST(Tuner, IgnoresSamplesThatSayNothing) {
  TunerOptions options;
  options.warmup_samples = 0;
  options.samples_per_point = 1;
  Tuner tuner(options, kDefaults);
  EXPECT_EQ(tuner.add(0, milliseconds(1)), std::nullopt);
  EXPECT_EQ(tuner.add(1, Duration::zero()), std::nullopt);
  EXPECT_EQ(tuner.take_log(), "phase,cycle_time_ms,tensor_fusion_threshold,score\n");
}

TEST(Tuner, HoldsWhatTheUserChose) {
  TunerOptions options;
  options.hold_threshold = true;
  const Tuning gaps = tune(hill(64, 5), 0, 1, options, {3 * kMiB, Duration::zero()});
  for (const TunedSettings& change : gaps.changes) EXPECT_EQ(change.fusion_threshold, 3 * kMiB);
  EXPECT_NEAR(gap_ms(gaps.chosen), 5, 1.5);
  options = {};
  options.hold_gap = true;
  const Tuning thresholds = tune(hill(64, 5), 0, 1, options, {kMiB, milliseconds(3)});
  for (const TunedSettings& change : thresholds.changes) {
    EXPECT_EQ(change.batching_gap, milliseconds(3));
  }
  EXPECT_GE(mib(thresholds.chosen), 32);
  options.hold_threshold = true;
  EXPECT_TRUE(Tuner(options, kDefaults).finished());
}

TEST(Tuner, DoesTheSameTwiceWithTheSameSamples) {
  const Tuning one = tune(hill(8, 2), 0.1, 7);
  const Tuning two = tune(hill(8, 2), 0.1, 7);
  EXPECT_EQ(one.log, two.log);
  EXPECT_NE(one.log, tune(hill(8, 2), 0.1, 8).log);
}

TEST(Tuner, EndsItsLogWithWhatItChose) {
  const Tuning run = tune(hill(8, 2));
  const std::string last = run.log.substr(run.log.rfind("chosen,"));
  EXPECT_THAT(last, HasSubstr("," + std::to_string(run.chosen.fusion_threshold) + ","));
  EXPECT_EQ(last.back(), '\n');
}

}  // namespace
}  // namespace hvd::engine
