#include "ops/mpi_library.h"

#include "ops/module_file.h"

namespace hvd {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

MpiLibrary find_and_open(const std::string& build_folder) {
  // The plugins that MPI itself opens look for its symbols.
  const ModuleFile file = open_module(
      {kMpiModuleFile, kMpiModuleSymbol, build_folder, "build with -DHVD_MPI=ON", true});
  if (file.function == nullptr) return {nullptr, file.detail};
  MpiModule* module = reinterpret_cast<MpiModuleFunction>(file.function)();
  return {module, first_line(module->version()) + " (" + file.detail + ")"};
}

}  // namespace

const MpiLibrary& mpi_library(const std::string& build_folder) {
  static const MpiLibrary library = find_and_open(build_folder);
  return library;
}

}  // namespace hvd
