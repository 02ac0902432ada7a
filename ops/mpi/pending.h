#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "ops/mpi/messages.h"

namespace hvd {

// Messages of the data communicator on their way, from and to memory of others. What is longer than
// MPI can count goes as several.
class MpiPending {
 public:
  MpiPending(std::shared_ptr<MpiCommunicator> communicator, std::size_t message_bytes)
      : communicator_(std::move(communicator)), message_bytes_(message_bytes) {}

  void send(Rank to, int tag, const std::byte* data, std::size_t bytes);
  void receive(Rank from, int tag, std::byte* data, std::size_t bytes);
  // True when all have moved.
  bool test();
  // All that has moved was as long as it was meant to be.
  bool complete() const noexcept { return complete_; }
  // Takes back what can be; false if MPI still uses the memory of some.
  bool withdraw() noexcept;

 private:
  struct Posted {
    MPI_Request request;
    bool receives;
    int bytes;
  };
  void note_length(const Posted& posted, const MPI_Status& status);
  // A pointer: vectors of it must move.
  std::shared_ptr<MpiCommunicator> communicator_;
  std::size_t message_bytes_;
  std::vector<Posted> posted_;
  bool complete_ = true;
};

}  // namespace hvd
