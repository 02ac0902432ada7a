#pragma once

#include <cerrno>

namespace hvd {

// Whether accept() failed for want of something that others hold: the connection goes on waiting,
// so its listener stays readable, and who does not wait a while before the next try spins.
inline bool is_out_of_descriptors(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace hvd
