#include "ops/connect/libraries.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/config/build_identity.h"

namespace hvd::engine {
namespace {

namespace fs = std::filesystem;

// The shared object, or the program, that this code was linked into; empty if unknown.
fs::path own_file() {
  Dl_info here{};
  link_map* map = nullptr;
  void** const found = reinterpret_cast<void**>(&map);
  if (dladdr1(reinterpret_cast<const void*>(&own_file), &here, found, RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  // The program itself has no name there, and dli_fname is what it was called by: "hvdrun" from
  // PATH.
  const bool is_program = map->l_name[0] == '\0';
  std::error_code ignored;
  return fs::canonical(is_program ? "/proc/self/exe" : map->l_name, ignored);
}

std::vector<fs::path> candidates(const fs::path& own, const char* name) {
  const fs::path folder = own.parent_path();
  std::vector<fs::path> files = {folder / name, folder / "../lib/horovod_cpp" / name};
#ifdef __x86_64__
  files.push_back(folder / "../lib/x86_64-linux-gnu/horovod_cpp" / name);
#elif defined(__aarch64__)
  files.push_back(folder / "../lib/aarch64-linux-gnu/horovod_cpp" / name);
#endif
  // hvdrun in the bin folder of a Python environment.
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "../lib", ignored)) {
    files.push_back(entry.path() / "site-packages/horovod_cpp" / name);
  }
  return files;
}

// True if only users who can modify `own` could have put `path` there or can modify it.
bool is_trusted(const fs::path& path, const struct stat& own) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  const auto owners = {uid_t{0}, geteuid(), own.st_uid};
  const bool ours = std::find(owners.begin(), owners.end(), info.st_uid) != owners.end();
  const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  return ours && ((info.st_mode & S_IWOTH) == 0 || sticky);
}

// The first file that is there; `refused` names those that another user may have put there.
fs::path find_file(const ModuleSpec& spec, std::string& refused) {
  const fs::path own = own_file();
  struct stat own_info {};
  if (own.empty() || stat(own.c_str(), &own_info) != 0) return {};
  for (const fs::path& candidate : candidates(own, spec.file)) {
    std::error_code error;
    const fs::path file = fs::canonical(candidate, error);
    if (error) continue;
    if (is_trusted(file, own_info) && is_trusted(file.parent_path(), own_info)) return file;
    refused += "; " + file.string() + " is not opened, because another user can write it";
  }
  return {};
}

ModuleFile open_file(const fs::path& file, const ModuleSpec& spec) {
  const int visible = spec.symbols_for_all ? RTLD_GLOBAL : RTLD_LOCAL;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_NODELETE | visible);
  if (library == nullptr) return {nullptr, dlerror()};
  void* build = dlsym(library, spec.build_symbol);
  void* function = dlsym(library, spec.symbol);
  Dl_info where{};
  const bool known = function != nullptr && dladdr(function, &where) != 0;
  const std::string path = known ? where.dli_fname : file.string();
  const std::string its_build =
      build == nullptr ? "unknown" : reinterpret_cast<const char* (*)()>(build)();
  if (its_build != build_identity()) {
    return {nullptr, path + " is of another build of horovod_cpp (" + its_build +
                         ") than what opens it (" + build_identity() + "); install one of them"};
  }
  if (function == nullptr) return {nullptr, dlerror()};
  return {function, path};
}

}  // namespace

ModuleFile open_module(const ModuleSpec& spec) {
  std::string refused;
  const fs::path file = find_file(spec, refused);
  if (!file.empty()) return open_file(file, spec);
  const ModuleFile elsewhere = open_file(spec.file, spec);
  const bool is_found = !elsewhere.detail.starts_with(std::string(spec.file) + ": cannot open");
  if (is_found) return elsewhere;
  return {nullptr, std::string(spec.file) + " is not installed next to this library" + refused +
                       "; " + spec.how_to_get};
}

namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// `detail`: of the linker, whose words name the library of MPI that is not there.
std::string with_advice(const std::string& detail) {
  if (detail.find("cannot open shared object file") == std::string::npos) return detail;
  return detail +
         "; install the MPI that this build is for (Open MPI: apt-get install openmpi-bin), or "
         "name its folder in LD_LIBRARY_PATH";
}

MpiLibrary open_mpi() {
  // The plugins that MPI itself opens look for its symbols.
  const ModuleFile file = open_module(
      {kMpiModuleFile, kMpiModuleSymbol, kMpiModuleBuild, "build with -DHVD_MPI=ON", true});
  if (file.function == nullptr) return {nullptr, with_advice(file.detail)};
  MpiModule* module = reinterpret_cast<MpiModuleFunction>(file.function)();
  return {module, first_line(module->version()) + " (" + file.detail + ")"};
}

NcclLibrary open_nccl() {
  const ModuleFile file = open_module(
      {kNcclModuleFile, kNcclModuleSymbol, kNcclModuleBuild, "build with -DHVD_CUDA=ON"});
  if (file.function == nullptr) return {nullptr, file.detail};
  return {reinterpret_cast<NcclModuleFunction>(file.function)(), file.detail};
}

}  // namespace

const MpiLibrary& mpi_library() {
  static const MpiLibrary library = open_mpi();
  return library;
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_nccl();
  return library;
}

}  // namespace hvd::engine
