#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>

namespace hvd::engine {

// The C++ class without its namespace ("Linear"): what messages call an object.
std::string class_name_of(const std::type_info& type);

// How many forks lie between the first process and this one, counted from the first call. A child
// has no coordinator: what was made under another generation must throw there instead of waiting.
std::uint32_t fork_generation() noexcept;

// Throws AbortedError when a fork() happened since `generation` was read.
void throw_if_forked(std::uint32_t generation);

// Memory that must not be freed stays until the process ends: another rank, or a device that hangs,
// may still use it. Any thread.
void leak_until_exit(std::shared_ptr<const void> memory);

}  // namespace hvd::engine
