#include "core/tune/autotune.h"

#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "core/config/log.h"
#include "core/system/files.h"

namespace hvd {
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

}  // namespace hvd
