#pragma once

#include <string>

namespace hvd::engine {

// Kills every process, except this one, that was started with `entry`, "NAME=value", in its
// environment, until there is none left: whatever session it is in, and whose child it became.
// Not those of other users, and not what was started with an environment without it.
void kill_marked(const std::string& entry);

}  // namespace hvd::engine
