#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvd {

// "; did you mean NAME?" with the one of `names` that is the fewest changed, added or left out
// characters away from `written` (Levenshtein's distance), the first of several. If it is more than
// a third of them, the first that begins with `written`; "" if there is none. Pure.
std::string did_you_mean(std::string_view written, std::span<const std::string> names);

}  // namespace hvd
