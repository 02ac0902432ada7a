#include "horovod_cpp/tensor/onednn/library.h"

#include <dlfcn.h>
#include <dnnl_version.h>

#include <string>

namespace hvd {
namespace isa {
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

}  // namespace isa
}  // namespace hvd
