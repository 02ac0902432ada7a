#include "ops/mpi_library.h"

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

std::vector<fs::path> candidates(const std::string& build_folder) {
  std::vector<fs::path> files;
  for (const fs::path& own : own_folders()) {
    for (const char* below : {".", "horovod_cpp", "../lib/horovod_cpp", "../lib"}) {
      files.push_back(own / below / kMpiModuleFile);
    }
#ifdef __x86_64__
    files.push_back(own / "../lib/x86_64-linux-gnu/horovod_cpp" / kMpiModuleFile);
#elif defined(__aarch64__)
    files.push_back(own / "../lib/aarch64-linux-gnu/horovod_cpp" / kMpiModuleFile);
#endif
    // hvdrun in the bin folder of a Python environment.
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(own / "../lib", ignored)) {
      files.push_back(entry.path() / "site-packages/horovod_cpp" / kMpiModuleFile);
    }
  }
  if (!build_folder.empty()) files.push_back(fs::path(build_folder) / kMpiModuleFile);
  return files;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

MpiLibrary open_file(const fs::path& file) {
  // Global, because the plugins that MPI itself opens look for its symbols.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) return {nullptr, dlerror()};
  auto* function = reinterpret_cast<MpiModuleFunction>(dlsym(library, kMpiModuleSymbol));
  if (function == nullptr) return {nullptr, dlerror()};
  MpiModule* module = function();
  return {module, first_line(module->version()) + " (" + file.string() + ")"};
}

MpiLibrary find_and_open(const std::string& build_folder) {
  std::error_code ignored;
  for (const fs::path& file : candidates(build_folder)) {
    if (fs::exists(file, ignored)) return open_file(fs::canonical(file, ignored));
  }
  // The linker's own search: the rpath that find_package(horovod_cpp) gives to a program, and
  // LD_LIBRARY_PATH.
  const MpiLibrary elsewhere = open_file(kMpiModuleFile);
  if (elsewhere.module != nullptr) return elsewhere;
  return {nullptr, std::string(kMpiModuleFile) +
                       " is not installed next to this library; build with -DHVD_MPI=ON"};
}

}  // namespace

const MpiLibrary& mpi_library(const std::string& build_folder) {
  static const MpiLibrary library = find_and_open(build_folder);
  return library;
}

}  // namespace hvd
