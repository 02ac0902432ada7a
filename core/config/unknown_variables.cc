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

constexpr std::array kUnused = {
    UnusedVariable{"HOROVOD_TORUS_ALLREDUCE", "it is an algorithm for NCCL"},
    UnusedVariable{"HOROVOD_BATCH_D2D_MEMCOPIES",
                   "batches of GPUs are always copied in one launch"},
    UnusedVariable{"HOROVOD_NUM_NCCL_STREAMS", "there is one stream for NCCL"},
    UnusedVariable{"HOROVOD_DISABLE_NVTX_RANGES", "there are no NVTX ranges"},
    UnusedVariable{"HOROVOD_GPU_OPERATIONS", "its name is HVD_GPU_OPERATIONS"},
    UnusedVariable{"HOROVOD_ENABLE_XLA_OPS", "it is for TensorFlow"},
    UnusedVariable{"HOROVOD_ELASTIC", "there is no elastic training yet"},
    UnusedVariable{"HOROVOD_ELASTIC_TIMEOUT", "there is no elastic training yet"},
    UnusedVariable{"HOROVOD_ADASUM_MPI_CHUNK_SIZE", "Adasum moves its data in one piece"},
    UnusedVariable{"HOROVOD_CCL_CACHE", "there is no oneCCL backend"},
    UnusedVariable{"HOROVOD_CCL_BGT_AFFINITY", "its name is HOROVOD_THREAD_AFFINITY"},
    UnusedVariable{"HOROVOD_GLOO_TIMEOUT_SECONDS",
                   "there is no Gloo; HOROVOD_START_TIMEOUT limits the start"},
    UnusedVariable{"HOROVOD_GLOO_RENDEZVOUS_ADDR",
                   "there is no Gloo; start the ranks with hvdrun or mpirun"},
    UnusedVariable{"HOROVOD_GLOO_RENDEZVOUS_PORT",
                   "there is no Gloo; start the ranks with hvdrun or mpirun"},
};

// Not in the table of settings, but meant for people to set.
constexpr std::array kSetByUsers = {"HVD_ISA", "HVD_DATA_DIR", "HVD_RENDEZVOUS_KEY"};

// What others than users set, or read: launchers for their ranks, builds, the tests.
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
  const auto found = std::find_if(kUnused.begin(), kUnused.end(),
                                  [&](const UnusedVariable& row) { return name == row.name; });
  return found == kUnused.end() ? nullptr : &*found;
}

bool is_read_elsewhere(std::string_view name) {
  const auto in = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return in(kOfLaunchers) || in(kOfBuilds) || in(kOfTests) ||
         std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<StrayVariable> find_unknown_variables(
    const std::map<std::string, std::string>& variables, std::span<const std::string> settings) {
  std::vector<std::string> known(settings.begin(), settings.end());
  known.insert(known.end(), kSetByUsers.begin(), kSetByUsers.end());
  std::vector<StrayVariable> strays;
  for (const auto& [name, value] : variables) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (const UnusedVariable* unused = find_unused(name)) {
      if (Flag::read(value) == false) continue;
      strays.push_back({name, name + "='" + value + "' does nothing here: " + unused->why});
    } else if (!is_read_elsewhere(name)) {
      strays.push_back({name, name + " is not a setting of horovod_cpp" +
                                  did_you_mean(name, known) +
                                  " (hvdrun --help-settings lists them)"});
    }
  }
  return strays;
}

}  // namespace hvd
