#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/config/config.h"
#include "core/observe/observer.h"

namespace hvd::engine {

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
  bool hold_threshold = false;  // the user chose it: keep the default's
  bool hold_gap = false;
};

// Searches for the settings that move most bytes per microsecond, by a geometric sweep: the gap (0
// to 10 ms), then the threshold (0 to 128 MiB), in steps of a factor of 4; then the neighbours of
// the best by factors of 2 and of sqrt(2), if anything was better than the defaults, which are
// tried first. Last, the best settings and the defaults are measured again in turns, and the
// defaults stay unless the others are better by more than 1 %. Pure and deterministic: equal
// samples give equal settings.
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
  enum class Phase { kSearch, kCompare, kFinished };
  using Point = std::array<std::size_t, 2>;  // positions in values_
  struct Tried {
    Point point;
    double score = 0;  // bytes per microsecond: the median of the samples
  };

  void search(double score);
  void compare(double score);
  void finish(const TunedSettings& chosen, double score);
  std::optional<Point> next_point();
  void plan_round();
  TunedSettings settings_at(const Point& point) const;
  const Tried& best() const;
  void log(const char* phase, const TunedSettings& settings, double score);

  const TunerOptions options_;
  const TunedSettings defaults_;
  std::array<std::vector<std::int64_t>, 2> values_;  // thresholds in bytes, gaps in nanoseconds
  TunedSettings settings_;
  Phase phase_ = Phase::kSearch;
  std::size_t discarded_ = 0;
  Point point_{};                // of settings_, in the search
  std::vector<double> samples_;  // of settings_, in the search
  std::vector<Tried> tried_;
  std::size_t round_ = 0;
  std::vector<Point> plan_;             // of the round, the next one last
  std::vector<double> default_scores_;  // of the comparison
  std::vector<double> challenger_scores_;
  std::string log_;
};

// Rank 0's measurements for the Tuner: a sample ends when some tensor was reduced
// autotune_steps_per_sample more times, and counts the bytes of all batches until then.
class Autotune final : public Observer {
 public:
  // Tunes what the user did not choose. Throws InvalidArgumentError when the log file cannot be
  // written.
  explicit Autotune(const Config& config);

  void finished(const BatchInfo& batch) override;

  // The settings to use from now on, once each time they change.
  std::optional<TunedSettings> take_change() { return std::exchange(change_, std::nullopt); }

 private:
  void end_sample(TimePoint now);
  void write_log();

  Tuner tuner_;
  const std::size_t steps_;
  UniqueFd log_;
  std::optional<TimePoint> begin_;  // of the sample; set when the first batch has ended
  std::size_t bytes_ = 0;
  std::map<std::string, std::size_t, std::less<>> seen_;  // how often, in this sample
  std::optional<TunedSettings> change_;
};

}  // namespace hvd::engine
