#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace hvd {

// What the tuner chooses.
struct TunedSettings {
  std::size_t fusion_threshold = 1 << 20;  // bytes; 0 = no fusion
  Duration batching_gap = Duration::zero();
  friend bool operator==(const TunedSettings&, const TunedSettings&) = default;
};

struct TunerOptions {
  std::size_t warmup_samples = 3;     // discarded at the start
  std::size_t samples_per_point = 5;  // their median is a point's score; at least 1
  std::size_t max_points = 20;  // settings that are tried, the defaults among them; at least 1
  // How much of the spread between a point's samples the model takes for noise, 0 to 1.
  double noise = 0.8;
  bool hold_threshold = false;  // the user chose it: keep the default's
  bool hold_gap = false;
};

// Searches for the settings that move most bytes a microsecond, by Bayesian optimisation: a
// Gaussian process over (log of the threshold, root of the gap) says where to look next. The
// threshold is 0 or 0.25 to 128 MiB, the gap 0 to 10 ms. The defaults are tried first. The search
// stops when nothing better is to be expected; then the best settings and the defaults are measured
// again in turns, and the defaults stay unless the others are better by more than 1 %. Pure and
// deterministic: equal samples give equal settings.
class Tuner {
 public:
  Tuner(const TunerOptions& options, const TunedSettings& defaults);

  // What was moved, and how long it took, under settings(). Returns the settings for the next
  // sample when they change. Samples without bytes or time say nothing and are ignored, and so is
  // everything once finished() is true.
  std::optional<TunedSettings> add(std::size_t bytes, Duration took);

  const TunedSettings& settings() const { return settings_; }
  bool finished() const { return phase_ == Phase::kFinished; }

  // Lines for a CSV file with a header, each with its newline; what was added since the last call.
  std::string take_log() { return std::exchange(log_, {}); }

 private:
  enum class Phase { kWarmup, kSearch, kCompare, kFinished };
  struct Tried {
    TunedSettings settings;
    double score = 0;   // bytes a microsecond: the median of the samples
    double spread = 0;  // standard deviation of that median
  };

  void search(double score);
  void compare(double score);
  void begin_comparison();
  void finish(const TunedSettings& chosen);
  std::optional<TunedSettings> next_point() const;
  std::optional<TunedSettings> ask_model(double least_gain) const;
  bool was_tried(const TunedSettings& settings) const;
  const Tried& best() const;
  void log(const char* phase, const TunedSettings& settings, double score);

  const TunerOptions options_;
  const TunedSettings defaults_;
  std::vector<TunedSettings> candidates_;
  std::vector<TunedSettings> first_;  // tried before the model is asked
  TunedSettings settings_;
  Phase phase_ = Phase::kWarmup;
  std::size_t warmup_left_;
  std::vector<double> samples_;  // of settings_
  std::vector<Tried> tried_;
  TunedSettings challenger_;
  std::vector<double> default_scores_;  // of the comparison
  std::vector<double> challenger_scores_;
  std::string log_;
};

}  // namespace hvd
