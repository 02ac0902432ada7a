#include "core/tune/tuner.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/base/status.h"
#include "core/config/log.h"
#include "core/system/files.h"

namespace hvd::engine {
namespace {

constexpr std::int64_t kMostThreshold = std::int64_t{128} << 20;
constexpr int kThresholdSteps = 18;  // of a factor of sqrt(2); the fourth from 0 is 1 MiB
constexpr Duration kMostGap = std::chrono::milliseconds(10);
constexpr int kGapSteps = 12;
constexpr std::array<std::size_t, 3> kStrides = {4, 2, 1};  // steps; two rounds with each
constexpr double kWorthwhile = 1.01;  // times the defaults' score: what is worth leaving them

enum Axis : std::size_t { kThreshold, kGap };

// 0, then `steps` values up to `most`, and the default among them; it alone if it is held.
std::vector<std::int64_t> geometric(std::int64_t most, int steps, std::int64_t by_default,
                                    bool held) {
  if (held) return {by_default};
  std::vector<std::int64_t> values = {0};
  for (int step = 1; step <= steps; ++step) {
    values.push_back(std::llround(static_cast<double>(most) * std::exp2((step - steps) / 2.0)));
  }
  const auto at = std::lower_bound(values.begin(), values.end(), by_default);
  if (at == values.end() || *at != by_default) values.insert(at, by_default);
  return values;
}

std::size_t position(const std::vector<std::int64_t>& values, std::int64_t value) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

Tuner::Tuner(const TunerOptions& options, const TunedSettings& defaults)
    : options_(options),
      defaults_(defaults),
      settings_(defaults),
      log_("phase,cycle_time_ms,tensor_fusion_threshold,score\n") {
  const auto threshold = static_cast<std::int64_t>(defaults.fusion_threshold);
  const std::int64_t gap = defaults.batching_gap.count();
  values_ = {geometric(kMostThreshold, kThresholdSteps, threshold, options.hold_threshold),
             geometric(kMostGap.count(), kGapSteps, gap, options.hold_gap)};
  point_ = {position(values_[kThreshold], threshold), position(values_[kGap], gap)};
  if (options_.hold_threshold && options_.hold_gap) finish(defaults_, 0);
}

std::optional<TunedSettings> Tuner::add(std::size_t bytes, Duration took) {
  if (finished() || bytes == 0 || took <= Duration::zero()) return std::nullopt;
  if (discarded_ < options_.warmup_samples) {
    ++discarded_;
    return std::nullopt;
  }
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
  tried_.push_back({point_, median(std::exchange(samples_, {}))});
  log(tried_.size() == 1 ? "default" : "search", settings_, tried_.back().score);
  if (const auto next = next_point()) {
    point_ = *next;
    settings_ = settings_at(point_);
    return;
  }
  if (&best() == &tried_.front()) return finish(defaults_, best().score);
  phase_ = Phase::kCompare;
  settings_ = defaults_;
}

// The best of many noisy scores looks better than it is, so both are measured afresh, in turns.
void Tuner::compare(double score) {
  const TunedSettings challenger = settings_at(best().point);
  const bool is_default = settings_ == defaults_;
  (is_default ? default_scores_ : challenger_scores_).push_back(score);
  settings_ = is_default ? challenger : defaults_;
  if (challenger_scores_.size() < options_.samples_per_point) return;
  const double ours = median(default_scores_);
  const double theirs = median(challenger_scores_);
  log("compare", defaults_, ours);
  log("compare", challenger, theirs);
  if (theirs > ours * kWorthwhile) return finish(challenger, best().score);
  finish(defaults_, tried_.front().score);
}

void Tuner::finish(const TunedSettings& chosen, double score) {
  phase_ = Phase::kFinished;
  settings_ = chosen;
  log("chosen", chosen, score);
}

// Nothing when the search is over.
std::optional<Tuner::Point> Tuner::next_point() {
  while (plan_.empty()) {
    // Between steps of a factor of 4 nothing is far better than at both of them.
    const bool refine = round_ < 2 || best().score > tried_.front().score * kWorthwhile;
    if (round_ == 2 * kStrides.size() || !refine) return std::nullopt;
    plan_round();
  }
  if (tried_.size() >= options_.max_points) return std::nullopt;
  const Point next = plan_.back();
  plan_.pop_back();
  return next;
}

// One of the two settings changes, the other stays the best known. No point comes twice, because
// each stride leads to positions that no longer one reaches.
void Tuner::plan_round() {
  const std::size_t stride = kStrides[round_ / 2];
  const Axis axis = round_ % 2 == 0 ? kGap : kThreshold;
  const bool whole_range = round_ < 2;
  ++round_;
  const std::size_t centre = best().point[axis];
  for (std::size_t i = values_[axis].size(); i-- > 0;) {
    const std::size_t distance = i > centre ? i - centre : centre - i;
    if (distance == 0 || distance % stride != 0) continue;
    if (distance > stride && !whole_range) continue;
    plan_.push_back(best().point);
    plan_.back()[axis] = i;
  }
}

TunedSettings Tuner::settings_at(const Point& point) const {
  return {static_cast<std::size_t>(values_[kThreshold][point[kThreshold]]),
          Duration(values_[kGap][point[kGap]])};
}

// The first of equals, so the defaults if nothing is better.
const Tuner::Tried& Tuner::best() const {
  return *std::max_element(tried_.begin(), tried_.end(),
                           [](const Tried& a, const Tried& b) { return a.score < b.score; });
}

void Tuner::log(const char* phase, const TunedSettings& settings, double score) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%s,%g,%zu,%g\n", phase,
                to_seconds(settings.batching_gap) * 1e3, settings.fusion_threshold, score);
  log_ += line.data();
}

namespace {

TunerOptions options_from(const Config& config) {
  TunerOptions options;
  options.warmup_samples = config.autotune_warmup_samples;
  options.max_points = config.autotune_max_samples;
  options.hold_threshold = !config.is_default("HOROVOD_FUSION_THRESHOLD");
  options.hold_gap = !config.is_default("HOROVOD_CYCLE_TIME");
  return options;
}

}  // namespace

Autotune::Autotune(const Config& config)
    : tuner_(options_from(config), {config.fusion_threshold, config.batching_gap}),
      steps_(config.autotune_steps_per_sample) {
  if (config.autotune_log.empty()) return;
  try {
    log_ = open_output(config.autotune_log);
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError("HOROVOD_AUTOTUNE_LOG='" + config.autotune_log +
                               "': " + error.what());
  }
  write_log();
}

void Autotune::finished(const BatchInfo& batch) {
  if (tuner_.finished()) return;
  if (!begin_) {  // what came before is not known
    begin_ = batch.finished;
    return;
  }
  bytes_ += batch.bytes;
  bool complete = false;
  for (const BatchMemberInfo& member : batch.members) {
    if (member.automatic_name) continue;  // never comes again
    auto it = seen_.find(member.name);
    if (it == seen_.end()) it = seen_.emplace(member.name, 0).first;
    complete |= ++it->second >= steps_;
  }
  if (complete) end_sample(batch.finished);
}

void Autotune::end_sample(TimePoint now) {
  if (const auto change = tuner_.add(bytes_, now - *begin_)) change_ = change;
  write_log();
  begin_ = now;
  bytes_ = 0;
  seen_.clear();
}

void Autotune::write_log() {
  if (!log_ || write_all(log_, tuner_.take_log())) return;
  log(LogLevel::kWarning,
      "the log of HOROVOD_AUTOTUNE_LOG ends here: " + std::string(std::strerror(errno)));
  log_.reset();
}

}  // namespace hvd::engine
