#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/connect/agreement.h"
#include "ops/shm/process.h"

namespace hvd {

// build_identity(), and the sizes of what ranks share as this compiler laid it out.
std::string build_and_layout();

// What each rank tells the others when they meet.
struct Introduction {
  std::string build;     // build_and_layout()
  std::string host;      // its name
  std::string identity;  // tells it from others of that name
  ProcessId process;
  ChosenValues chosen;
};

std::string encode(const Introduction& introduction);

// `texts`: what encode() gave on each rank. Throws UnsupportedError, with the same text on every
// rank, unless all come from the same build of this library, of which nothing but the build is read
// then; PeerLostError that names the rank if a text is malformed.
std::vector<Introduction> decode_introductions(std::span<const std::string> texts);

}  // namespace hvd
