#pragma once

// Marks functions of single elements, which loops of the host and kernels of devices are made of:
// the same code, so that both give the same bits.
#ifdef __CUDACC__
#define HVD_ELEMENTWISE __host__ __device__ __attribute__((always_inline))
#else
#define HVD_ELEMENTWISE [[gnu::always_inline]]
#endif
