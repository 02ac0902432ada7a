#pragma once

#include <functional>
#include <string>

namespace hvd {

// Tells the user of what is probably a mistake: as a line of the log, unless a front end has a way
// of its own. May throw what that throws (Python's warnings may be errors). Any thread.
void warn(const std::string& text);

// Set once, before other threads warn.
void set_warning_handler(std::function<void(const std::string&)> handler);

}  // namespace hvd
