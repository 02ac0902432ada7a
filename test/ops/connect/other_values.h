#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"

namespace hvd::engine::test {

// A value of the setting that is not its default, whatever setting it is: `row` of its table. Empty
// if none of the words here is one.
inline std::string other_value(const SettingInfo& row) {
  for (const char* word : {"1", "0", "2", "0.5", "mpi", "host", "debug", "/no/such/folder/file"}) {
    Config config;
    try {
      take_from_rank_zero(config, row.name, word);
    } catch (const InvalidArgumentError&) {
      continue;
    }
    for (const SettingInfo& read : describe_settings(config)) {
      if (read.name == row.name && read.value != row.default_value) return read.value;
    }
  }
  return "";
}

// The rows of one agreement.
inline std::vector<SettingInfo> settings_with(Agreement agreement) {
  std::vector<SettingInfo> rows;
  for (const SettingInfo& row : describe_settings(Config{})) {
    if (row.agreement == agreement) rows.push_back(row);
  }
  return rows;
}

struct NameOfSetting {
  std::string operator()(const auto& info) const { return info.param.name; }
};

}  // namespace hvd::engine::test
