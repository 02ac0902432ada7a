#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hvd {

// Both draw from the system's generator: for keys, and for names that nobody can guess and no other
// process has. They throw InternalError if the system has none. Any thread.
void draw_random(std::span<std::byte> bytes);
std::string random_hex(std::size_t digits);

}  // namespace hvd
