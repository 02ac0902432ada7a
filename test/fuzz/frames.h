#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"

namespace hvd::engine::test {

// Gives bytes to what reads those of other processes: the first byte says to which reader, the
// second what the sender is (see frames.cc), the rest is what it sends. Aborts the process when
// something else comes of it than a value or an error that names the peer or the file: that is a
// finding.
void read_as_peer(std::span<const std::byte> input);

// What real peers send, by name, for the fuzzer to start from.
std::vector<std::pair<std::string, Bytes>> frames_of_real_peers();

}  // namespace hvd::engine::test
