#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace hvd {

// A variable that is set and does nothing, and a sentence that says so.
struct StrayVariable {
  std::string name;
  std::string text;
};

// Those of `variables` (HOROVOD_* and HVD_*, name to value) that nothing reads: misspelt names,
// with the nearest of `settings`, and those of Horovod's that mean nothing here, unless they are
// switched off. Pure.
std::vector<StrayVariable> find_unknown_variables(
    const std::map<std::string, std::string>& variables, std::span<const std::string> settings);

}  // namespace hvd
