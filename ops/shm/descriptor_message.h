#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/unique_fd.h"

namespace hvd::engine {

// A number and up to kMost descriptors, over a Unix stream socket. The other end gets descriptors
// of its own for the same files.
struct DescriptorMessage {
  static constexpr std::size_t kMost = 4;

  std::int32_t number = 0;
  std::vector<UniqueFd> descriptors;
};

// False when it cannot be sent yet. Throws PeerLostError if the other end is gone.
bool send_descriptors(const UniqueFd& socket, std::int32_t number,
                      std::span<const int> descriptors);

// The next message; empty if none is here yet. Throws PeerLostError if the other end is gone or has
// sent something else, UnsupportedError if this process may not open that many files.
std::optional<DescriptorMessage> receive_descriptors(const UniqueFd& socket);

}  // namespace hvd::engine
