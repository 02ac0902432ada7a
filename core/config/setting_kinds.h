#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/config/log.h"
#include "core/config/port_range.h"

namespace hvd {

// How settings of one kind are read and written. read() gives nothing for malformed text; write()
// gives text that read() takes. `accepted` completes "expected ...".
template <typename Value>
struct SettingKind {
  const char* accepted;
  std::optional<Value> (*read)(std::string_view text);
  std::string (*write)(const Value& value);
};

namespace kinds {

extern const SettingKind<std::size_t> kWholeNumber, kPositiveNumber, kOperations;
extern const SettingKind<bool> kFlag;
extern const SettingKind<double> kFraction;
extern const SettingKind<Duration> kMilliseconds, kSeconds, kSecondsAboveZero, kPositiveSeconds;
extern const SettingKind<std::string> kText, kTimelinePath, kCheck, kControlTransport, kWorldChoice,
    kController, kCpuOperations, kGpuOperations;
extern const SettingKind<LogLevel> kLevel;
extern const SettingKind<std::vector<int>> kCores;
extern const SettingKind<PortRange> kPorts;

}  // namespace kinds
}  // namespace hvd
