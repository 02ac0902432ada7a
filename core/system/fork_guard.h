#pragma once

#include <cstdint>

namespace hvd {

// How many forks lie between the first process and this one, counted from the first call. A child
// has no coordinator: what was made under another generation must throw there instead of waiting.
std::uint32_t fork_generation() noexcept;

// Throws AbortedError when a fork() happened since `generation` was read.
void throw_if_forked(std::uint32_t generation);

}  // namespace hvd
