#include <cuda_runtime_api.h>

#include <cstdlib>

#include "test/gpu/logic/host_cuda.h"

// Memory pools of host_cuda.cc's devices: what is freed goes back as soon as the stream is there. A
// device has less than a terabyte.
extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMemoryPoolsSupported ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  static char place;
  *pool = reinterpret_cast<cudaMemPool_t>(&place);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  const cudaError_t failed = hvd::engine::test::host_cuda().memory_error;
  if (failed != cudaSuccess) return failed;
  if (bytes >= kMost) return cudaErrorMemoryAllocation;
  *data = hvd::engine::test::allocate_on_heap(bytes);
  ++hvd::engine::test::host_cuda().in_pool;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  hvd::engine::test::enqueue_on_host(stream, [data] {
    std::free(data);
    --hvd::engine::test::host_cuda().in_pool;
  });
  return cudaSuccess;
}

}  // extern "C"
