#pragma once

namespace hvd {

// While on, backward() looks at every gradient that an operation gives and throws
// InvalidArgumentError naming the first operation that gives a NaN. For all threads; off at the
// start. Costs one pass over every gradient.
void set_detect_anomaly(bool enabled) noexcept;
bool anomaly_enabled() noexcept;

// Sets it while it lives.
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool enabled = true) noexcept : previous_(anomaly_enabled()) {
    set_detect_anomaly(enabled);
  }
  ~DetectAnomalyGuard() { set_detect_anomaly(previous_); }
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool previous_;
};

}  // namespace hvd
