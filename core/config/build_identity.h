#pragma once

namespace hvd {

// Which horovod_cpp this is: its version and a hash of core/ and ops/, "0.1.0-3f2a9c1b0d4e".
//
// Ranks of one job map the same memory and read each other's bytes, and this library and the
// modules that it opens share classes: all of that takes one build. The layouts, messages and tags
// are all defined in those two folders, so that no version has to be counted up by hand. Two
// builds of the same sources are equal, wherever and for whichever system they were built.
const char* build_identity() noexcept;

}  // namespace hvd
