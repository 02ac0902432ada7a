#include "horovod_cpp/tensor/onednn/gemm.h"

#include <dlfcn.h>
#include <dnnl.h>

#include <string>

#include "core/base/status.h"

namespace hvd {
namespace isa {
namespace {

// What is used of the library and of the OpenMP runtime that came with it.
struct Library {
  decltype(&dnnl_sgemm) sgemm = nullptr;
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;

  bool complete() const { return sgemm && get_max_threads && set_num_threads; }
};

Library open_library() {
  const std::string name = "libdnnl.so." + std::to_string(DNNL_VERSION_MAJOR);
  Library library;
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // open as long as the process
  if (handle == nullptr) return library;
  library.sgemm = reinterpret_cast<decltype(library.sgemm)>(dlsym(handle, "dnnl_sgemm"));
  library.get_max_threads =
      reinterpret_cast<decltype(library.get_max_threads)>(dlsym(handle, "omp_get_max_threads"));
  library.set_num_threads =
      reinterpret_cast<decltype(library.set_num_threads)>(dlsym(handle, "omp_set_num_threads"));
  return library;
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

// One thread computes, as in all kernels: a job has a rank for each core, and the order of sums
// does not depend on the number of cores.
class OneThread {
 public:
  OneThread() : before_(library().get_max_threads()) {
    if (before_ != 1) library().set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) library().set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
          std::int64_t ldc, bool accumulate) {
  const OneThread one_thread;
  const dnnl_status_t status =
      library().sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b,
                      ldb, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    throw InternalError("dnnl_sgemm gave status " + std::to_string(status));
  }
}

}  // namespace

bool use_onednn(Table& table) {
  if (!library().complete()) return false;
  table.f32.gemm = gemm;
  return true;
}

}  // namespace isa
}  // namespace hvd
