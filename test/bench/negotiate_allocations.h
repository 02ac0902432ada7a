#pragma once

#include <cstddef>

namespace hvd::engine::bench {

// How often this program has asked for memory. One thread.
std::size_t allocations();

}  // namespace hvd::engine::bench
