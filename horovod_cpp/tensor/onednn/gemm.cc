#include "horovod_cpp/tensor/onednn/gemm.h"

#include <dnnl.h>

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/tensor/onednn/library.h"

namespace hvd {
namespace isa {
namespace {

decltype(&dnnl_sgemm) library_sgemm() {
  static const auto found = reinterpret_cast<decltype(&dnnl_sgemm)>(onednn_symbol("dnnl_sgemm"));
  return found;
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
          std::int64_t ldc, bool accumulate) {
  const OneThread one_thread;
  const dnnl_status_t status =
      library_sgemm()(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b,
                      ldb, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw InternalError("dnnl_sgemm gave status " + std::to_string(status));
  }
}

}  // namespace

bool use_onednn(Table& table) {
  if (library_sgemm() == nullptr || !OneThread::available()) return false;
  table.f32.gemm = gemm;
  return true;
}

}  // namespace isa
}  // namespace hvd
