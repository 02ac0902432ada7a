#include "core/config/unknown_variables.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/setting_kinds.h"

namespace hvd {
namespace {

std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // edits from a[:i] to each b[:j]
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view written, std::span<const std::string> names) {
  const std::string* closest = nullptr;
  std::size_t fewest = written.size() / 3 + 1;
  for (const std::string& name : names) {
    const std::size_t edits = edits_between(written, name);
    if (edits >= fewest) continue;
    fewest = edits;
    closest = &name;
  }
  if (closest == nullptr) {
    const bool begun = written.find_first_not_of('-') != std::string_view::npos;
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return begun && name.starts_with(written);
    });
    if (longer != names.end()) closest = &*longer;
  }
  return closest == nullptr ? "" : "; did you mean " + *closest + "?";
}

namespace {

struct UnusedVariable {
  const char* name;
  const char* why;
};

constexpr UnusedVariable kUnused[] = {
    {"HOROVOD_TORUS_ALLREDUCE", "it is an algorithm for NCCL"},
    {"HOROVOD_BATCH_D2D_MEMCOPIES", "batches of GPUs are always copied in one launch"},
    {"HOROVOD_NUM_NCCL_STREAMS", "there is one stream for NCCL"},
    {"HOROVOD_DISABLE_NVTX_RANGES", "there are no NVTX ranges"},
    {"HOROVOD_GPU_OPERATIONS", "its name is HVD_GPU_OPERATIONS"},
    {"HOROVOD_ENABLE_XLA_OPS", "it is for TensorFlow"},
    {"HOROVOD_ELASTIC", "there is no elastic training yet"},
    {"HOROVOD_ELASTIC_TIMEOUT", "there is no elastic training yet"},
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", "Adasum moves its data in one piece"},
    {"HOROVOD_CCL_CACHE", "there is no oneCCL backend"},
    {"HOROVOD_CCL_BGT_AFFINITY", "its name is HOROVOD_THREAD_AFFINITY"},
    {"HOROVOD_GLOO_TIMEOUT_SECONDS", "there is no Gloo; HOROVOD_START_TIMEOUT limits the start"},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "there is no Gloo; start the ranks with hvdrun or mpirun"},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", "there is no Gloo; start the ranks with hvdrun or mpirun"},
};

// Not in the table of settings, but meant for people to set.
constexpr std::array kSetByUsers = {"HVD_ISA", "HVD_DATA_DIR", "HVD_RENDEZVOUS_KEY"};

// What programs set or read: launchers for their ranks, builds, the tests.
constexpr std::array kOfLaunchers = {
    "HOROVOD_RANK",        "HOROVOD_SIZE",       "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",  "HOROVOD_CROSS_SIZE", "HVD_RANK_MARK",      "HVD_RANK_PROCESS",
    "HVD_SETTING_SOURCES", "HVD_JOB_ID"};
constexpr std::array kOfBuilds = {"HVD_MPI", "HVD_CUDA", "HVD_ONEDNN", "HVD_PYTHON", "HVD_TESTS"};
constexpr std::array kOfTests = {"HVD_BUILD", "HVD_DIGITS", "HVD_REFERENCE_DIR",
                                 "HVD_HOST",  "HVD_HOSTS",  "HVD_GPU_MODULE"};
constexpr std::array kFamilies = {"HOROVOD_WITH",   "HOROVOD_GPU",   "HOROVOD_CUDA_",
                                  "HOROVOD_NCCL_",  "HOROVOD_ROCM_", "HOROVOD_MPI_",
                                  "HOROVOD_BUILD_", "HVD_WORKER_",   "HVD_TEST_"};

const UnusedVariable* find_unused(std::string_view name) {
  const auto* found = std::ranges::find(kUnused, name, &UnusedVariable::name);
  return found == std::end(kUnused) ? nullptr : found;
}

bool is_read_elsewhere(std::string_view name) {
  const auto in = [name](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  return in(kOfLaunchers) || in(kOfBuilds) || in(kOfTests) ||
         std::ranges::any_of(kFamilies,
                             [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<UnknownVariable> find_unknown_variables(
    const std::map<std::string, std::string>& variables, std::span<const std::string> settings) {
  std::vector<std::string> known(settings.begin(), settings.end());
  known.insert(known.end(), kSetByUsers.begin(), kSetByUsers.end());
  std::vector<UnknownVariable> found;
  for (const auto& [name, value] : variables) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (const UnusedVariable* unused = find_unused(name)) {
      if (kinds::kFlag.read(value) == false) continue;
      found.push_back({name, name + "='" + value + "' does nothing here: " + unused->why});
    } else if (!is_read_elsewhere(name)) {
      found.push_back({name, name + " is not a setting of horovod_cpp" + did_you_mean(name, known) +
                                 " (hvdrun --help-settings lists them)"});
    }
  }
  return found;
}

}  // namespace hvd
