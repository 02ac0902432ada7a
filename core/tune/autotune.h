#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "core/base/unique_fd.h"
#include "core/config/config.h"
#include "core/observe/observer.h"
#include "core/tune/tuner.h"

namespace hvd {

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

}  // namespace hvd
