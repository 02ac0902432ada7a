#pragma once

#include <stdexcept>
#include <string>

namespace hvd {

// What `action` throws as `E`; fails the test by throwing when nothing comes.
template <typename E, typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  throw std::logic_error("nothing was thrown");
}

}  // namespace hvd
