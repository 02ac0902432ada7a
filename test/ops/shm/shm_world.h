#pragma once

#include <fcntl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"

namespace hvd::engine::test {

// The memory of the ranks of one host, each of which makes its ports from it: a thread, or a
// process that was forked from this one.
class ShmWorld {
 public:
  explicit ShmWorld(int size) : size_(size) {
    const DataSegment::Needs needs = DataSegment::needs(size, {});
    memory_ = SharedMemory::create(needs.bytes, needs.reserved);
    for (int rank = 0; rank < size; ++rank) files_.push_back(make_memory_file());
  }

  int size() const { return size_; }

  // `processes`: of all ranks.
  std::unique_ptr<ControlPlane> control_plane(Rank rank,
                                              const std::vector<ProcessId>& processes) const {
    const std::vector<std::string> names(static_cast<std::size_t>(size_), "node7");
    std::vector<ProcessHandle> handles;
    for (const ProcessId& each : processes) handles.emplace_back(each);
    return std::make_unique<ShmControlPlane>(place(rank, names, names), memory_, handles);
  }
  std::unique_ptr<Collective> collective(Rank rank) const {
    std::vector<UniqueFd> files;
    for (const UniqueFd& file : files_) {
      files.emplace_back(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    }
    return std::make_unique<ShmCollective>(
        std::make_unique<DataSegment>(memory_, size_, rank, ShmLimits{}),
        ArenaFiles(std::move(files), rank));
  }

 private:
  int size_;
  std::shared_ptr<SharedMemory> memory_;
  std::vector<UniqueFd> files_;  // of the ranks' arenas
};

}  // namespace hvd::engine::test
