#include "core/config/closest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace hvd {
namespace {

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // edits from a[:i] to each b[:j]
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view written, std::span<const std::string> names) {
  const std::string* closest = nullptr;
  std::size_t fewest = written.size() / 3 + 1;
  for (const std::string& name : names) {
    const std::size_t edits = edits_between(written, name);
    if (edits >= fewest) continue;
    fewest = edits;
    closest = &name;
  }
  if (closest == nullptr) {
    const bool begun = written.find_first_not_of('-') != std::string_view::npos;
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return begun && name.starts_with(written);
    });
    if (longer != names.end()) closest = &*longer;
  }
  return closest == nullptr ? "" : "; did you mean " + *closest + "?";
}

}  // namespace hvd
