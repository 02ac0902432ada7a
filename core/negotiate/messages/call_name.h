#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvd {

// How calls are named, and how messages for people show these names.

// What is reduced together is named after its first tensor: "c1.weight", "c1.weight and 7 more".
std::string group_name(const std::string& first, std::size_t count);

// What follows the names of calls of the second and later ones of a kind: " (optimizer 2)".
std::string unique_suffix(const std::string& kind, std::uint64_t number);

// A caller's name in quotes: 'x'; of a group: 'c1.weight' and 7 more.
std::string quoted_name(std::string_view name);

// The name of a request: 'x' (allreduce); 'c1.weight' and 7 more (allreduce of process set 2).
// A name that says no kind is quoted as it is. Calls without a name are numbered: unnamed call 7
// (allreduce).
std::string readable_name(std::string_view name);

}  // namespace hvd
