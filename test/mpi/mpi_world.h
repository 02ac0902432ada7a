#pragma once

#include "ops/connect/backends.h"

namespace hvd::engine::test {

// What connect() gave this rank; all cases use it one after the other.
Ports& ports();

// Leaves and connects again. Collective.
void reconnect();

}  // namespace hvd::engine::test
