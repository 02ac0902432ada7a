#pragma once

#include <cuda_runtime_api.h>

namespace hvd::engine {

// Throws PeerLostError with CUDA's text unless `code` is cudaSuccess. Every return code of CUDA
// goes through here, except those that are an answer ("not ready", "no device").
void check_cuda(cudaError_t code, const char* call);

}  // namespace hvd::engine
