#include "ops/connect/mpi_library.h"

#include "ops/connect/module_file.h"

namespace hvd {
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

}  // namespace

const MpiLibrary& mpi_library() {
  static const MpiLibrary library = open_mpi();
  return library;
}

}  // namespace hvd
