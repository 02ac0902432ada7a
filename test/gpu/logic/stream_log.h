#pragma once

#include <cuda_runtime_api.h>

namespace hvd::engine::test {

// What was put on streams, in order; for programs that opened the module over host_cuda.cc, which
// read it with hvd_test_stream_log().
void log_stream(const char* what, cudaStream_t stream, int event = 0);

}  // namespace hvd::engine::test

extern "C" {

// Lines "record EVENT STREAM", "wait EVENT STREAM" and "copy 0 STREAM" since the last call; valid
// until the next one.
__attribute__((visibility("default"))) const char* hvd_test_stream_log();
// A producer's stream, of whichever device; its handle.
__attribute__((visibility("default"))) unsigned long long hvd_test_make_stream();
// Makes `stream` wait for all that is on `before`, as a library does that hands over memory.
__attribute__((visibility("default"))) void hvd_test_order(unsigned long long before,
                                                           unsigned long long stream);
// From now on (or no more) events that are recorded are not reached.
__attribute__((visibility("default"))) void hvd_test_stall(int stalled);
}
