#include "test/gpu/logic/stream_log.h"

#include <mutex>
#include <string>
#include <utility>

#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/host_streams.h"

namespace {

struct Log {
  std::mutex mutex;
  std::string text;
  std::string shown;
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

namespace hvd::engine::test {

void log_stream(const char* what, cudaStream_t stream, int event) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.text += std::string(what) + " " + std::to_string(event) + " " +
              std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + "\n";
}

}  // namespace hvd::engine::test

extern "C" {

const char* hvd_test_stream_log() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.shown = std::exchange(log.text, {});
  return log.shown.c_str();
}

unsigned long long hvd_test_make_stream() {
  using hvd::engine::test::kAnyDevice;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  stream->device = kAnyDevice;
  return reinterpret_cast<std::uintptr_t>(stream);
}

void hvd_test_order(unsigned long long before, unsigned long long stream) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, reinterpret_cast<cudaStream_t>(before));
  cudaStreamWaitEvent(reinterpret_cast<cudaStream_t>(stream), event, 0);
  cudaEventDestroy(event);
}

void hvd_test_stall(int stalled) {
  hvd::engine::test::host_cuda().stalled = stalled != 0;
  hvd::engine::test::host_cuda().stalls_ended += stalled == 0;
}

void hvd_test_stall_results(int stalled) {
  hvd::engine::test::host_cuda().results_stalled = stalled != 0;
  hvd::engine::test::host_cuda().stalls_ended += stalled == 0;
}
}
