#include "core/negotiate/messages/call_name.h"

#include <algorithm>

#include "core/negotiate/messages/request.h"

namespace hvd {
namespace {

constexpr std::string_view kAnd = " and ", kMore = " more", kNoName = "noname";

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where " (optimizer 2)" begins: see unique_suffix(). Else the name's end.
std::size_t end_of_unique(std::string_view name) {
  const std::size_t open = name.rfind(" (");
  const std::size_t space = name.rfind(' ');
  if (open == std::string_view::npos || open == 0 || space <= open || !name.ends_with(')')) {
    return name.size();
  }
  return is_number(name.substr(space + 1, name.size() - space - 2)) ? open : name.size();
}

// Where " and 7 more" begins, or the name's end. The tensors of one dtype of a mixed group have
// that behind it.
std::size_t end_of_first(std::string_view name) {
  const std::size_t more = name.rfind(kMore);
  if (more == std::string_view::npos) return name.size();
  const std::string_view behind = name.substr(more + kMore.size());
  if (!behind.empty() && !behind.starts_with('.')) return name.size();
  const std::size_t joint = name.rfind(kAnd, more);
  if (joint == std::string_view::npos || joint == 0) return name.size();
  const std::size_t number = joint + kAnd.size();
  return more > number && is_number(name.substr(number, more - number)) ? joint : name.size();
}

// "set2." at the front is taken off; what it says, "" for the world.
std::string_view take_set(std::string_view& name) {
  if (!name.starts_with("set")) return "";
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || !is_number(name.substr(3, dot - 3))) return "";
  const std::string_view set = name.substr(3, dot - 3);
  name.remove_prefix(dot + 1);
  return set;
}

// What people read of a call without a name, or without one yet: "noname.7", "noname". Else "".
std::string unnamed_call(std::string_view name) {
  if (name == kNoName) return "an unnamed call";
  if (!name.starts_with(kNoName) || name[kNoName.size()] != '.') return "";
  const std::string_view number = name.substr(kNoName.size() + 1);
  return is_number(number) ? "unnamed call " + std::string(number) : "";
}

// "allreduce." at the front is taken off; "" if there is no kind.
std::string_view take_kind(std::string_view& name) {
  for (int kind = 0; kind < kCollectiveKindCount; ++kind) {
    const std::string_view text = name_of(static_cast<CollectiveKind>(kind));
    if (name.size() < text.size() + 2 || !name.starts_with(text) || name[text.size()] != '.') {
      continue;
    }
    name.remove_prefix(text.size() + 1);
    return text;
  }
  return "";
}

}  // namespace

std::string group_name(const std::string& first, std::size_t count) {
  return count < 2 ? first
                   : first + std::string(kAnd) + std::to_string(count - 1) + std::string(kMore);
}

std::string unique_suffix(const std::string& kind, std::uint64_t number) {
  return number < 2 ? "" : " (" + kind + " " + std::to_string(number) + ")";
}

std::string quoted_name(std::string_view name) {
  const std::size_t end = end_of_first(name.substr(0, end_of_unique(name)));
  return "'" + std::string(name.substr(0, end)) + "'" + std::string(name.substr(end));
}

std::string readable_name(std::string_view name) {
  const std::string_view set = take_set(name);
  const std::string_view kind = take_kind(name);
  std::string text = kind.empty() ? "" : unnamed_call(name);
  if (text.empty()) text = quoted_name(name);
  if (kind.empty() && set.empty()) return text;
  text.append(" (").append(kind);
  if (!set.empty()) text.append(kind.empty() ? "process set " : " of process set ").append(set);
  return text + ")";
}

}  // namespace hvd
