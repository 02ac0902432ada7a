#include "core/negotiate/tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "core/negotiate/gaussian_process.h"

namespace hvd {
namespace {

constexpr std::size_t kLeastThreshold = 1 << 18;  // 0.25 MiB; below it there is only 0
constexpr int kThresholdSteps = 18;               // of half an octave: up to 128 MiB
constexpr Duration kMostGap = std::chrono::milliseconds(10);
constexpr int kGapSteps = 10;
constexpr double kWorthwhile = 0.01;      // of the score: what is worth leaving the defaults
constexpr double kHopeful = 0.002;        // of the score: what is worth trying a point
constexpr std::size_t kPatience = 6;      // points without an improvement
constexpr std::size_t kLeastPoints = 10;  // before the model may end the search

// 0, then 0.25 MiB doubling every second step.
std::size_t threshold_at(int step) {
  if (step == 0) return 0;
  return static_cast<std::size_t>(
      std::llround(static_cast<double>(kLeastThreshold) * std::exp2((step - 1) / 2.0)));
}

Duration gap_at(int step) {
  return kMostGap * (step * step) / (kGapSteps * kGapSteps);
}

// Settings as a point of the unit square. No fusion is one step below the least threshold.
GaussianProcess::Point place_of(const TunedSettings& settings) {
  double step = 0;
  if (settings.fusion_threshold > 0) {
    const double octaves = std::log2(static_cast<double>(settings.fusion_threshold) /
                                     static_cast<double>(kLeastThreshold));
    step = 1 + 2 * octaves;
  }
  const double gap = to_seconds(settings.batching_gap) / to_seconds(kMostGap);
  return {std::clamp(step / (kThresholdSteps + 1), 0.0, 1.0), std::clamp(std::sqrt(gap), 0.0, 1.0)};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Of the median of normal values: pi/2 times the variance of their mean.
double deviation_of_median(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double count = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(std::numbers::pi / 2 * squares / (count - 1) / count);
}

}  // namespace

Tuner::Tuner(const TunerOptions& options, const TunedSettings& defaults)
    : options_(options),
      defaults_(defaults),
      settings_(defaults),
      warmup_left_(options.warmup_samples),
      log_("phase,cycle_time_ms,tensor_fusion_threshold,score\n") {
  const auto held = [&](std::size_t threshold, Duration gap) {
    return TunedSettings{options_.hold_threshold ? defaults_.fusion_threshold : threshold,
                         options_.hold_gap ? defaults_.batching_gap : gap};
  };
  for (int t = 0; t <= kThresholdSteps + 1; ++t) {
    for (int g = 0; g <= kGapSteps; ++g) {
      const TunedSettings point = held(threshold_at(t), gap_at(g));
      if (std::find(candidates_.begin(), candidates_.end(), point) == candidates_.end()) {
        candidates_.push_back(point);
      }
    }
  }
  // Corners and middle of what is usual: the model needs something to start from.
  for (const auto& [t, g] :
       {std::pair(9, 0), std::pair(15, 3), std::pair(3, 5), std::pair(12, 7)}) {
    first_.push_back(held(threshold_at(t), gap_at(g)));
  }
  if (options_.hold_threshold && options_.hold_gap) finish(defaults_);
}

std::optional<TunedSettings> Tuner::add(std::size_t bytes, Duration took) {
  if (finished() || bytes == 0 || took <= Duration::zero()) return std::nullopt;
  if (phase_ == Phase::kWarmup && warmup_left_ > 0) {
    --warmup_left_;
    return std::nullopt;
  }
  if (phase_ == Phase::kWarmup) phase_ = Phase::kSearch;
  const double score = static_cast<double>(bytes) / (to_seconds(took) * 1e6);
  const TunedSettings before = settings_;
  if (phase_ == Phase::kSearch) {
    search(score);
  } else {
    compare(score);
  }
  return settings_ == before ? std::nullopt : std::optional(settings_);
}

void Tuner::search(double score) {
  samples_.push_back(score);
  if (samples_.size() < options_.samples_per_point) return;
  tried_.push_back({settings_, median(samples_), deviation_of_median(samples_)});
  samples_.clear();
  log(tried_.size() == 1 ? "default" : "search", settings_, tried_.back().score);
  if (const auto next = next_point()) {
    settings_ = *next;
  } else {
    begin_comparison();
  }
}

void Tuner::begin_comparison() {
  challenger_ = best().settings;
  if (challenger_ == defaults_) return finish(defaults_);
  phase_ = Phase::kCompare;
  settings_ = defaults_;
}

// The best of many noisy scores looks better than it is, so both are measured afresh, in turns.
void Tuner::compare(double score) {
  const bool is_default = settings_ == defaults_;
  (is_default ? default_scores_ : challenger_scores_).push_back(score);
  settings_ = is_default ? challenger_ : defaults_;
  if (challenger_scores_.size() < options_.samples_per_point) return;
  const double ours = median(default_scores_);
  const double theirs = median(challenger_scores_);
  log("compare", defaults_, ours);
  log("compare", challenger_, theirs);
  finish(theirs > ours * (1 + kWorthwhile) ? challenger_ : defaults_);
}

void Tuner::finish(const TunedSettings& chosen) {
  phase_ = Phase::kFinished;
  settings_ = chosen;
  double score = 0;
  for (const Tried& tried : tried_) {
    if (tried.settings == chosen) score = tried.score;
  }
  log("chosen", chosen, score);
}

const Tuner::Tried& Tuner::best() const {
  return *std::max_element(tried_.begin(), tried_.end(),
                           [](const Tried& a, const Tried& b) { return a.score < b.score; });
}

bool Tuner::was_tried(const TunedSettings& settings) const {
  return std::any_of(tried_.begin(), tried_.end(),
                     [&](const Tried& tried) { return tried.settings == settings; });
}

// Where to look next; nothing when the search is over.
std::optional<TunedSettings> Tuner::next_point() const {
  if (tried_.size() >= options_.max_points) return std::nullopt;
  for (const TunedSettings& point : first_) {
    if (!was_tried(point)) return point;
  }
  const bool enough = tried_.size() >= kLeastPoints;
  const auto since_best = static_cast<std::size_t>(&tried_.back() - &best());
  if (enough && since_best >= kPatience) return std::nullopt;
  return ask_model(enough ? kHopeful * best().score : 0);
}

// The point from which most is to be expected, if that is at least `least_gain`.
std::optional<TunedSettings> Tuner::ask_model(double least_gain) const {
  std::vector<GaussianProcess::Point> places;
  std::vector<double> scores;
  double variance = 0;
  for (const Tried& tried : tried_) {
    places.push_back(place_of(tried.settings));
    scores.push_back(tried.score);
    variance += tried.spread * tried.spread / static_cast<double>(tried_.size());
  }
  const GaussianProcess model(places, scores, options_.noise * std::sqrt(variance));
  double most = least_gain;
  std::optional<TunedSettings> next;
  for (const TunedSettings& point : candidates_) {
    const double gain = expected_improvement(model.at(place_of(point)), best().score);
    if (gain < most || was_tried(point)) continue;
    most = gain;
    next = point;
  }
  return next;
}

void Tuner::log(const char* phase, const TunedSettings& settings, double score) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%s,%g,%zu,%g\n", phase,
                to_seconds(settings.batching_gap) * 1e3, settings.fusion_threshold, score);
  log_ += line.data();
}

}  // namespace hvd
