#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/shared_block.h"

// What processes share of their GPUs, over CUDA on host memory as programs see it that open the
// module: as CUDA says of cudaIpcGetMemHandle() and its like.
namespace hvd::engine {
namespace {

constexpr unsigned kShared = cudaEventDisableTiming | cudaEventInterprocess;

// What another process returns; -1 if a signal ended it.
int in_another_process(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

cudaError_t open(int** data, const cudaIpcMemHandle_t& handle) {
  return cudaIpcOpenMemHandle(reinterpret_cast<void**>(data), handle,
                              cudaIpcMemLazyEnablePeerAccess);
}

class SharedMemoryOfGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    test::reset_host_cuda();
    test::host_cuda().processes_are_threads = false;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), 100 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaIpcGetMemHandle(&handle_, data_ + 50), cudaSuccess);
  }
  void TearDown() override {
    cudaFree(data_);
    test::reset_host_cuda();
  }

  int* data_ = nullptr;
  cudaIpcMemHandle_t handle_ = {};
};

TEST_F(SharedMemoryOfGpus, IsOpenedFromItsBegin) {
  data_[0] = 7;
  EXPECT_EQ(in_another_process([&] {
              int* theirs = nullptr;
              int* again = nullptr;
              if (open(&theirs, handle_) != cudaSuccess || theirs[0] != 7) return 1;
              if (open(&again, handle_) != cudaSuccess || again != theirs) return 2;
              theirs[99] = 8;
              if (cudaIpcCloseMemHandle(again) != cudaSuccess) return 3;
              if (cudaIpcCloseMemHandle(theirs) != cudaSuccess) return 4;
              return cudaIpcCloseMemHandle(theirs) == cudaErrorInvalidValue ? 0 : 5;
            }),
            0);
  EXPECT_EQ(data_[99], 8);
  cudaFree(data_);
  data_ = nullptr;
  EXPECT_EQ(test::host_cuda().freed_while_opened, 0);
}

TEST_F(SharedMemoryOfGpus, IsRefusedWhereItWasExported) {
  int* mine = nullptr;
  EXPECT_EQ(open(&mine, handle_), cudaErrorDeviceUninitialized);
}

TEST_F(SharedMemoryOfGpus, IsRefusedOnceItWasFreed) {
  cudaFree(data_);
  data_ = nullptr;
  int* next = nullptr;  // whose file has the same number
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&next), 100 * sizeof(int)), cudaSuccess);
  EXPECT_EQ(in_another_process([&] {
              int* theirs = nullptr;
              return static_cast<int>(open(&theirs, handle_));
            }),
            static_cast<int>(cudaErrorInvalidResourceHandle) & 0xff);
  cudaFree(next);
}

TEST_F(SharedMemoryOfGpus, ThatIsFreedTooEarlyIsNoted) {
  EXPECT_EQ(in_another_process([&] {
              int* theirs = nullptr;
              return static_cast<int>(open(&theirs, handle_));
            }),
            0);
  cudaFree(data_);
  data_ = nullptr;
  EXPECT_EQ(test::host_cuda().freed_while_opened, 1);
}

TEST_F(SharedMemoryOfGpus, GoesWithAProcessThatIsKilled) {
  const auto letter = test::SharedBlock::make(sizeof(cudaIpcMemHandle_t));
  EXPECT_EQ(in_another_process([&] {
              int* theirs = nullptr;
              cudaMalloc(reinterpret_cast<void**>(&theirs), 8);
              cudaIpcMemHandle_t handle;
              cudaIpcGetMemHandle(&handle, theirs);
              std::memcpy(letter->data(), &handle, sizeof handle);
              return raise(SIGKILL);
            }),
            -1);
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, letter->data(), sizeof handle);
  int* theirs = nullptr;
  EXPECT_EQ(open(&theirs, handle), cudaErrorInvalidResourceHandle);
}

TEST_F(SharedMemoryOfGpus, MemoryOfAPoolIsNotShared) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&memory, 64, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(cudaIpcGetMemHandle(&handle_, memory), cudaErrorInvalidValue);
  cudaFreeAsync(memory, nullptr);
}

TEST_F(SharedMemoryOfGpus, EventsAreReachedInAllProcesses) {
  test::host_cuda().by_hand = true;
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, kShared), cudaSuccess);
  cudaIpcEventHandle_t handle;
  ASSERT_EQ(cudaIpcGetEventHandle(&handle, event), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const auto seen_by_another = [&] {
    return in_another_process([&] {
      cudaEvent_t theirs = nullptr;
      const cudaError_t opened = cudaIpcOpenEventHandle(&theirs, handle);
      return static_cast<int>(opened == cudaSuccess ? cudaEventQuery(theirs) : opened);
    });
  };
  EXPECT_EQ(seen_by_another(), static_cast<int>(cudaSuccess));  // nothing was recorded
  cudaEventRecord(event, stream);
  EXPECT_EQ(seen_by_another(), static_cast<int>(cudaErrorNotReady) & 0xff);
  test::run_streams();
  EXPECT_EQ(seen_by_another(), static_cast<int>(cudaSuccess));
  EXPECT_EQ(cudaIpcOpenEventHandle(&event, handle), cudaErrorDeviceUninitialized);
  cudaStreamDestroy(stream);
  cudaEventDestroy(event);
  EXPECT_EQ(seen_by_another(), static_cast<int>(cudaErrorInvalidResourceHandle) & 0xff);
}

TEST_F(SharedMemoryOfGpus, OnlyEventsMadeForItAreShared) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  cudaIpcEventHandle_t handle;
  EXPECT_EQ(cudaIpcGetEventHandle(&handle, event), cudaErrorInvalidResourceHandle);
  cudaEventDestroy(event);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace hvd::engine
