#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "ops/nccl/api.h"

namespace hvd::engine {
namespace {

namespace fs = std::filesystem;

// Fills in what the library has; remembers the first function that it lacks.
class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}

  template <typename Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  // What NCCL can do without; false if it is not there.
  template <typename Function>
  bool load_optional(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

// All or none: memory that NCCL allocates has to be registered, deregistered and freed.
void load_registration(const Loader& loader, NcclApi& api) {
  const bool all = loader.load_optional(api.mem_alloc, "ncclMemAlloc") &&
                   loader.load_optional(api.mem_free, "ncclMemFree") &&
                   loader.load_optional(api.comm_register, "ncclCommRegister") &&
                   loader.load_optional(api.comm_deregister, "ncclCommDeregister");
  if (all) return;
  api.mem_alloc = nullptr;
  api.mem_free = nullptr;
  api.comm_register = nullptr;
  api.comm_deregister = nullptr;
}

std::string load_all(void* library, NcclApi& api) {
  Loader loader(library);
  loader.load(api.get_version, "ncclGetVersion");
  loader.load(api.get_error_string, "ncclGetErrorString");
  loader.load(api.get_last_error, "ncclGetLastError");
  loader.load(api.get_unique_id, "ncclGetUniqueId");
  loader.load(api.comm_init_rank_config, "ncclCommInitRankConfig");
  loader.load(api.comm_split, "ncclCommSplit");
  loader.load(api.comm_shrink, "ncclCommShrink");
  loader.load(api.comm_get_async_error, "ncclCommGetAsyncError");
  loader.load(api.comm_finalize, "ncclCommFinalize");
  loader.load(api.comm_destroy, "ncclCommDestroy");
  loader.load(api.comm_abort, "ncclCommAbort");
  loader.load(api.group_start, "ncclGroupStart");
  loader.load(api.group_end, "ncclGroupEnd");
  loader.load(api.all_reduce, "ncclAllReduce");
  loader.load(api.reduce_scatter, "ncclReduceScatter");
  loader.load(api.reduce, "ncclReduce");
  loader.load(api.broadcast, "ncclBroadcast");
  loader.load(api.all_gather, "ncclAllGather");
  loader.load(api.send, "ncclSend");
  loader.load(api.recv, "ncclRecv");
  loader.load(api.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  loader.load(api.red_op_destroy, "ncclRedOpDestroy");
  load_registration(loader, api);
  return loader.missing();
}

// ncclConfig_t grows with NCCL: an older library would not know the fields of ours.
bool serves(int found) {
  return found / 10000 == NCCL_VERSION_CODE / 10000 && found / 100 >= NCCL_VERSION_CODE / 100;
}

std::string folder_of_this_code() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&load_all), &here) == 0) return {};
  return fs::path(here.dli_fname).parent_path().string();
}

NcclFile find_nccl() {
  NcclFile found = open_nccl("libnccl.so.2");
  if (found.api != nullptr) return found;
  const std::string own = folder_of_this_code();
  for (const char* below : {"../nvidia/nccl/lib", "../../nvidia/nccl/lib"}) {
    const fs::path file = fs::path(own) / below / "libnccl.so.2";
    std::error_code ignored;
    if (!own.empty() && fs::exists(file, ignored)) return open_nccl(file.string());
  }
  return found;
}

}  // namespace

NcclFile open_nccl(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return {nullptr, dlerror()};
  const auto get_version =
      reinterpret_cast<decltype(&::ncclGetVersion)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != ncclSuccess) {
    return {nullptr, file + " does not tell its version: it is not NCCL"};
  }
  const std::string found = "NCCL " + nccl_version_text(version) + " (" + file + ")";
  if (!serves(version)) {
    return {nullptr, found + ", but horovod_cpp was built for " +
                         nccl_version_text(NCCL_VERSION_CODE) + " and needs " +
                         std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) +
                         " or newer of " + std::to_string(NCCL_MAJOR) + ".x"};
  }
  auto api = std::make_unique<NcclApi>();
  const std::string missing = load_all(library, *api);
  if (!missing.empty()) return {nullptr, found + " has no " + missing};
  return {api.release(), found};  // for as long as the process lives
}

const NcclFile& nccl_file() {
  static const NcclFile file = find_nccl();
  return file;
}

}  // namespace hvd::engine
