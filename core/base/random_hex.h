#pragma once

#include <cstddef>
#include <string>

namespace hvd {

// So many random hexadecimal digits, from the system's generator: for names that nobody can guess
// and no other process has. Throws InternalError if the system has none. Any thread.
std::string random_hex(std::size_t digits);

}  // namespace hvd
