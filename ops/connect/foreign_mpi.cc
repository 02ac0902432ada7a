#include "ops/connect/foreign_mpi.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

bool is_mpi(const char* path) {
  const std::string_view text = path;
  return text.substr(text.rfind('/') + 1).starts_with("libmpi.so");
}

// What the program itself asks for, not what its libraries do.
bool program_links_mpi(const link_map& program) {
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = program.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  for (const ElfW(Dyn)* entry = program.l_ld; names && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED && is_mpi(names + entry->d_un.d_val)) return true;
  }
  return false;
}

// `library`: an MPI in this process, whichever it is: this function is the same in all of them.
bool is_initialized(const link_map& library) {
  void* handle = dlopen(library.l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  int initialized = 0;
  void* function = dlsym(handle, "MPI_Initialized");
  if (function != nullptr) reinterpret_cast<int (*)(int*)>(function)(&initialized);
  dlclose(handle);
  return initialized != 0;
}

bool program_uses_mpi() {
  void* handle = dlopen(nullptr, RTLD_LAZY);
  link_map* program = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &program) != 0) return false;
  if (program_links_mpi(*program)) return true;
  for (const link_map* each = program; each != nullptr; each = each->l_next) {
    if (is_mpi(each->l_name) && is_initialized(*each)) return true;
  }
  return false;
}

}  // namespace

void refuse_programs_of_mpi(const LaunchInfo& launch, const Config& config) {
  if (launch.launcher != "hvdrun" || config.controller == "gloo" || !program_uses_mpi()) return;
  throw UnsupportedError("this program uses MPI itself, which sees a world of one in each of the ",
                         launch.size.value_or(0),
                         " ranks that hvdrun started without it: use hvdrun --mpi (or --gloo, if "
                         "MPI's world of one is meant)");
}

}  // namespace hvd::engine
