#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>

#include "test/gpu/logic/shared_block.h"

// An event, of all its handles in whichever process.
struct HostEvent {
  std::atomic<int> held = 0;    // since the stall of this number; 0 = never
  std::atomic<int> number = 0;  // of the newest record, among those of all events; for the log
  std::atomic<std::uint64_t> recorded = 0;
  std::atomic<std::uint64_t> completed = 0;
};

struct CUstream_st {
  int device = 0;
  std::deque<std::function<bool()>> work;
  bool destroyed = false;
  bool wrote = false;  // the last copy was one to the device
};

struct CUevent_st {
  std::shared_ptr<HostEvent> state = std::make_shared<HostEvent>();
  std::shared_ptr<hvd::engine::test::SharedBlock>
      block;  // of one for several processes, which has the state
  bool is_imported = false;
  int device = 0;
};

namespace hvd::engine::test {

inline constexpr int kAnyDevice = -1;  // of a stream that does for all of them

// Else it is a stream that CUDA has for each device.
bool is_of_a_device(cudaStream_t stream);

// The streams of all devices: what is enqueued, and when it is done (host_cuda.h). What is enqueued
// in one that was destroyed is still done. Thread-safe.
class HostStreams {
 public:
  cudaStream_t make(int device);
  void destroy(cudaStream_t stream);
  // Without a stream it is done at once.
  void push(cudaStream_t stream, std::function<bool()> work);
  // What is pushed next is a copy.
  void copies(cudaStream_t stream, bool to_device);
  void record(cudaEvent_t event, cudaStream_t stream);
  void wait(cudaStream_t stream, cudaEvent_t event);
  // After a look at the streams, which may move them.
  bool reached(cudaEvent_t event);
  void run();
  // Whether a device has nothing left to do, after run().
  bool idle(int device);
  // Of a test that is over.
  void drop();
  void seed(unsigned seed);

 private:
  void add(cudaStream_t stream, std::function<bool()> work);
  void run_all();
  void run_one();
  void forget();
  bool has_work() const;
  void be_the_device();

  std::mutex mutex_;
  std::condition_variable added_;
  bool runs_by_itself_ = false;
  std::list<std::unique_ptr<CUstream_st>> streams_;  // the newest first
  std::mt19937 random_{1};
};

}  // namespace hvd::engine::test
