#pragma once

#include <functional>

#include "core/base/topology.h"

namespace hvd::engine::test {

// Runs `body` for every rank at the same time, each on a thread of its own, and joins them.
void run_ranks(int size, const std::function<void(Rank)>& body);

}  // namespace hvd::engine::test
