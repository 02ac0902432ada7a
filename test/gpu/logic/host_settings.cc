// The devices of a process that opens the module over host_cuda.cc, by its environment:
// HOST_CUDA_DEVICES=4 (else 2) is how many the machine has, CUDA_VISIBLE_DEVICES=1,0 which of them
// CUDA shows, HOST_CUDA_MEMORY=1000000 how many bytes there are outside pools, HOST_CUDA_LAZY=7
// does the work of streams in an order drawn with that seed, and HOST_CUDA_IPC=0 shares no memory,
// as some containers.

#include <sstream>
#include <string>

#include "core/config/config.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine::test {
namespace {

// As CUDA: up to the first that is not there.
std::vector<int> visible_of(const std::string& text, int devices) {
  std::vector<int> visible;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const bool is_number = !word.empty() && word.find_first_not_of("0123456789") == word.npos;
    if (!is_number || std::stoi(word) >= devices) break;
    visible.push_back(std::stoi(word));
  }
  return visible;
}

bool read_settings() {
  HostCuda& cuda = host_cuda();
  cuda.runs_by_itself = true;
  if (const auto devices = environment("HOST_CUDA_DEVICES")) cuda.devices = std::stoi(*devices);
  if (const auto visible = environment("CUDA_VISIBLE_DEVICES")) {
    cuda.visible = visible_of(*visible, cuda.devices);
    cuda.devices = static_cast<int>(cuda.visible.size());
  }
  if (const auto bytes = environment("HOST_CUDA_MEMORY")) cuda.memory_limit = std::stoull(*bytes);
  if (const auto seed = environment("HOST_CUDA_LAZY")) {
    cuda.lazy = true;
    seed_streams(static_cast<unsigned>(std::stoul(*seed)));
  }
  if (environment("HOST_CUDA_IPC") == "0") cuda.ipc_export_error = cudaErrorNotSupported;
  return true;
}

[[maybe_unused]] const bool are_read = read_settings();

}  // namespace
}  // namespace hvd::engine::test
