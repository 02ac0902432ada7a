#include "horovod_cpp/tensor/onednn/gemm.h"

#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include <dnnl.h>
#include <dnnl_version.h>

#include "core/base/status.h"

namespace hvd::isa {
namespace {

struct Threads {
  int (*get_max)() = nullptr;
  void (*set)(int) = nullptr;
};

const Threads& threads() {
  static const Threads found = {
      reinterpret_cast<decltype(Threads::get_max)>(onednn_symbol("omp_get_max_threads")),
      reinterpret_cast<decltype(Threads::set)>(onednn_symbol("omp_set_num_threads"))};
  return found;
}

}  // namespace

void* onednn_library() {
  static void* const handle =
      dlopen(("libdnnl.so." + std::to_string(DNNL_VERSION_MAJOR)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle;
}

void* onednn_symbol(const char* name) {
  return onednn_library() == nullptr ? nullptr : dlsym(onednn_library(), name);
}

bool OneThread::available() {
  return threads().get_max != nullptr && threads().set != nullptr;
}

OneThread::OneThread() : before_(threads().get_max()) {
  if (before_ != 1) threads().set(1);
}

OneThread::~OneThread() {
  if (before_ != 1) threads().set(before_);
}

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
    throw InternalError("dnnl_sgemm gave status ", static_cast<int>(status));
  }
}

}  // namespace

bool use_onednn(Table& table) {
  if (library_sgemm() == nullptr || !OneThread::available()) return false;
  table.f32.gemm = gemm;
  return true;
}

#if DNNL_VERSION_MAJOR == 2
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status == dnnl_success) return;
  throw InternalError("oneDNN: ", what, " gave status ", static_cast<int>(status));
}

// A function of the library, found at its first use.
#define HVD_DNNL(name)                                                          \
  [] {                                                                          \
    static const auto found =                                                   \
        reinterpret_cast<decltype(&dnnl_##name)>(onednn_symbol("dnnl_" #name)); \
    return found;                                                               \
  }()

template <typename Handle, typename Destroy>
auto owned(Handle handle, Destroy destroy) {
  return std::shared_ptr<std::remove_pointer_t<Handle>>(handle, destroy);
}
template <typename Handle>
using Owned = std::shared_ptr<std::remove_pointer_t<Handle>>;

dnnl_engine_t engine() {
  static dnnl_engine_t made = [] {
    dnnl_engine_t result = nullptr;  // lives as long as the process
    check(HVD_DNNL(engine_create)(&result, dnnl_cpu, 0), "engine_create");
    return result;
  }();
  return made;
}

// The arguments of gemm that a primitive is made for.
using Key = std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, bool>;

dnnl_memory_desc_t matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                          dnnl_data_type_t type) {
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t strides = {transposed ? 1 : ld, transposed ? ld : 1};
  dnnl_memory_desc_t result;
  check(HVD_DNNL(memory_desc_init_by_strides)(&result, 2, dims, type, strides), "memory_desc");
  return result;
}

// One product of fixed shapes.
class Product {
 public:
  explicit Product(const Key& key) {
    const auto& [transpose_a, transpose_b, m, n, k, lda, ldb, ldc, accumulate] = key;
    const std::array descs = {matrix(m, k, lda, transpose_a, dnnl_bf16),
                              matrix(k, n, ldb, transpose_b, dnnl_bf16),
                              matrix(m, n, ldc, false, dnnl_f32)};
    dnnl_matmul_desc_t desc;
    check(HVD_DNNL(matmul_desc_init)(&desc, &descs[0], &descs[1], nullptr, &descs[2]), "matmul");
    const auto attributes = attributes_of(accumulate);
    dnnl_primitive_desc_t made = nullptr;
    check(HVD_DNNL(primitive_desc_create)(&made, &desc, attributes.get(), engine(), nullptr),
          "primitive_desc_create");
    const auto description = owned(made, HVD_DNNL(primitive_desc_destroy));
    dnnl_primitive_t primitive = nullptr;
    check(HVD_DNNL(primitive_create)(&primitive, description.get()), "primitive_create");
    primitive_ = owned(primitive, HVD_DNNL(primitive_destroy));
    dnnl_stream_t stream = nullptr;
    check(HVD_DNNL(stream_create)(&stream, engine(), dnnl_stream_default_flags), "stream_create");
    stream_ = owned(stream, HVD_DNNL(stream_destroy));
    for (std::size_t i = 0; i < descs.size(); ++i) {
      dnnl_memory_t memory = nullptr;
      check(HVD_DNNL(memory_create)(&memory, &descs[i], engine(), nullptr), "memory_create");
      memories_[i] = owned(memory, HVD_DNNL(memory_destroy));
    }
  }

  void run(const BFloat16* a, const BFloat16* b, float* c) {
    const std::array<const void*, 3> data = {a, b, c};
    for (std::size_t i = 0; i < data.size(); ++i) {
      check(HVD_DNNL(memory_set_data_handle)(memories_[i].get(), const_cast<void*>(data[i])),
            "memory_set_data_handle");
    }
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memories_[0].get()},
                                    {DNNL_ARG_WEIGHTS, memories_[1].get()},
                                    {DNNL_ARG_DST, memories_[2].get()}};
    check(HVD_DNNL(primitive_execute)(primitive_.get(), stream_.get(), 3, args), "matmul");
    check(HVD_DNNL(stream_wait)(stream_.get()), "stream_wait");
  }

 private:
  static Owned<dnnl_primitive_attr_t> attributes_of(bool accumulate) {
    dnnl_primitive_attr_t made = nullptr;
    check(HVD_DNNL(primitive_attr_create)(&made), "primitive_attr_create");
    auto attributes = owned(made, HVD_DNNL(primitive_attr_destroy));
    if (!accumulate) return attributes;
    dnnl_post_ops_t operations = nullptr;
    check(HVD_DNNL(post_ops_create)(&operations), "post_ops_create");
    const auto keeper = owned(operations, HVD_DNNL(post_ops_destroy));
    check(HVD_DNNL(post_ops_append_sum)(operations, 1.0f), "post_ops_append_sum");
    check(HVD_DNNL(primitive_attr_set_post_ops)(made, operations), "set_post_ops");
    return attributes;
  }

  Owned<dnnl_primitive_t> primitive_;
  Owned<dnnl_stream_t> stream_;
  std::array<Owned<dnnl_memory_t>, 3> memories_;
};

constexpr std::size_t kMostProducts = 512;  // that a thread keeps

void gemm_bf16(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const BFloat16* a, std::int64_t lda, const BFloat16* b, std::int64_t ldb, float* c,
               std::int64_t ldc, bool accumulate) {
  thread_local std::map<Key, Product> products;
  const OneThread one_thread;
  const Key key = {transpose_a, transpose_b, m, n, k, lda, ldb, ldc, accumulate};
  auto found = products.find(key);
  if (found == products.end()) {
    if (products.size() == kMostProducts) products.clear();
    found = products.emplace(key, Product(key)).first;
  }
  found->second.run(a, b, c);
}

bool runs_on(dnnl_cpu_isa_t isa) {
  if (onednn_symbol("dnnl_get_effective_cpu_isa") == nullptr || !OneThread::available())
    return false;
  // The names of a family are nested sets of bits.
  return (HVD_DNNL(get_effective_cpu_isa)() & isa) == isa;
}

}  // namespace

decltype(Bf16Kernels::gemm) onednn_gemm_bf16() {
  return runs_on(dnnl_cpu_isa_avx512_core) ? gemm_bf16 : nullptr;
}

void use_onednn_bf16(Table& table) {
  if (runs_on(dnnl_cpu_isa_avx512_core_amx)) table.bf16.gemm = gemm_bf16;
}

#undef HVD_DNNL

#else

decltype(Bf16Kernels::gemm) onednn_gemm_bf16() {
  return nullptr;
}

void use_onednn_bf16(Table&) {}

#endif

}  // namespace hvd::isa
