#include "ops/module_file.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace hvd {
namespace {

namespace fs = std::filesystem;

// The folders of the shared object that this code was linked into, and of the program.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&own_folders), &here) != 0) {
    const fs::path file = fs::canonical(here.dli_fname, ignored);
    if (!file.empty()) folders.push_back(file.parent_path());
  }
  const fs::path program = fs::canonical("/proc/self/exe", ignored);
  if (!program.empty()) folders.push_back(program.parent_path());
  return folders;
}

std::vector<fs::path> candidates(const ModuleSpec& spec) {
  std::vector<fs::path> files;
  for (const fs::path& own : own_folders()) {
    for (const char* below : {".", "horovod_cpp", "../lib/horovod_cpp", "../lib"}) {
      files.push_back(own / below / spec.file);
    }
#ifdef __x86_64__
    files.push_back(own / "../lib/x86_64-linux-gnu/horovod_cpp" / spec.file);
#elif defined(__aarch64__)
    files.push_back(own / "../lib/aarch64-linux-gnu/horovod_cpp" / spec.file);
#endif
    // hvdrun in the bin folder of a Python environment.
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(own / "../lib", ignored)) {
      files.push_back(entry.path() / "site-packages/horovod_cpp" / spec.file);
    }
  }
  if (!spec.build_folder.empty()) files.push_back(fs::path(spec.build_folder) / spec.file);
  return files;
}

ModuleFile open_file(const fs::path& file, const ModuleSpec& spec) {
  const int visible = spec.symbols_for_all ? RTLD_GLOBAL : RTLD_LOCAL;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_NODELETE | visible);
  if (library == nullptr) return {nullptr, dlerror()};
  void* function = dlsym(library, spec.symbol);
  if (function == nullptr) return {nullptr, dlerror()};
  return {function, file.string()};
}

}  // namespace

ModuleFile open_module(const ModuleSpec& spec) {
  std::error_code ignored;
  for (const fs::path& file : candidates(spec)) {
    if (fs::exists(file, ignored)) return open_file(fs::canonical(file, ignored), spec);
  }
  // The linker's own search: the rpath that find_package(horovod_cpp) gives to a program, and
  // LD_LIBRARY_PATH.
  const ModuleFile elsewhere = open_file(spec.file, spec);
  if (elsewhere.function != nullptr) return elsewhere;
  return {nullptr,
          std::string(spec.file) + " is not installed next to this library; " + spec.how_to_get};
}

}  // namespace hvd
