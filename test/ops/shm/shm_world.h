#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"

namespace hvd::test {

// The memory of the ranks of one host, each of which makes its ports from it: a thread, or a
// process that was forked from this one.
class ShmWorld {
 public:
  explicit ShmWorld(int size) : size_(size), mail_(shared(Mailboxes::bytes_needed(size))) {
    const DataSegment::Needs needs = DataSegment::needs(size, {});
    data_ = SharedMemory::create(needs.bytes, needs.reserved);
    data_->remove_name();
  }

  int size() const { return size_; }

  // `processes`: of all ranks.
  std::unique_ptr<ControlPlane> control_plane(Rank rank, std::vector<ProcessId> processes) const {
    const std::vector<std::string> names(static_cast<std::size_t>(size_), "node7");
    return std::make_unique<ShmControlPlane>(place(rank, names, names), mail_,
                                             std::move(processes));
  }
  std::unique_ptr<Collective> collective(Rank rank) const {
    const Mailboxes mailboxes(mail_, size_);
    std::vector<DoorbellState*> bells;
    for (int each = 0; each < size_; ++each) bells.push_back(&mailboxes.slot(each).bell);
    return std::make_unique<ShmCollective>(
        std::make_unique<DataSegment>(data_, 0, size_, rank, ShmLimits{}, std::move(bells)));
  }

 private:
  static std::shared_ptr<SharedMemory> shared(std::size_t bytes) {
    std::shared_ptr<SharedMemory> memory = SharedMemory::create(bytes);
    memory->remove_name();
    return memory;
  }

  int size_;
  std::shared_ptr<SharedMemory> mail_;
  std::shared_ptr<SharedMemory> data_;
};

}  // namespace hvd::test
