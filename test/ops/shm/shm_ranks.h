#pragma once

#include <fcntl.h>

#include <memory>
#include <utility>
#include <vector>

#include "ops/shm/shm_collective.h"

namespace hvd::engine::test {

// The ranks of one host, all in this process, with a Collective each.
class ShmRanks {
 public:
  explicit ShmRanks(int size, const ShmLimits& limits = {}) {
    const DataSegment::Needs needs = DataSegment::needs(size, limits);
    const auto memory = SharedMemory::create(needs.bytes, needs.reserved);
    mailboxes_ = std::make_unique<Mailboxes>(memory, size);
    std::vector<UniqueFd> files;
    for (int rank = 0; rank < size; ++rank) files.push_back(make_memory_file());
    for (int rank = 0; rank < size; ++rank) {
      std::vector<UniqueFd> copies;
      for (const UniqueFd& file : files) {
        copies.emplace_back(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
      }
      collectives_.push_back(
          std::make_unique<ShmCollective>(std::make_unique<DataSegment>(memory, size, rank, limits),
                                          ArenaFiles(std::move(copies), rank)));
    }
  }

  ShmCollective& operator[](Rank rank) { return *collectives_[static_cast<std::size_t>(rank)]; }
  Doorbell bell(Rank rank) { return Doorbell(mailboxes_->slot(rank).bell); }

 private:
  std::unique_ptr<Mailboxes> mailboxes_;
  std::vector<std::unique_ptr<ShmCollective>> collectives_;
};

}  // namespace hvd::engine::test
