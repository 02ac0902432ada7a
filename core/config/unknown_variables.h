#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

// "; did you mean NAME?" with the one of `names` that is the fewest changed, added or left out
// characters away from `written` (Levenshtein's distance), the first of several. If it is more than
// a third of them, the first that begins with `written`; "" if there is none. Pure.
std::string did_you_mean(std::string_view written, std::span<const std::string> names);

// A variable that is set and does nothing, and a sentence that says so.
struct UnknownVariable {
  std::string name;
  std::string text;
};

// Those of `variables` (HOROVOD_* and HVD_*, name to value) that nothing reads: misspelt names,
// with the nearest of `settings`, and those of Horovod's that mean nothing here, unless they are
// switched off. Pure.
std::vector<UnknownVariable> find_unknown_variables(
    const std::map<std::string, std::string>& variables, std::span<const std::string> settings);

}  // namespace hvd
