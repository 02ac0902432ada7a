#include "ops/mpi/pending.h"

#include <algorithm>

namespace hvd {

void MpiPending::send(Rank to, int tag, const std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += message_bytes_) {
    const auto count = static_cast<int>(std::min(message_bytes_, bytes - done));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data + done, count, MPI_BYTE, to, tag, communicator_->data(), &request),
              "MPI_Isend");
    posted_.push_back({request, false, count});
  }
}

void MpiPending::receive(Rank from, int tag, std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += message_bytes_) {
    const auto count = static_cast<int>(std::min(message_bytes_, bytes - done));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data + done, count, MPI_BYTE, from, tag, communicator_->data(), &request),
              "MPI_Irecv");
    posted_.push_back({request, true, count});
  }
}

bool MpiPending::test() {
  while (!posted_.empty()) {
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&posted_.back().request, &done, &status), "MPI_Test");
    if (done == 0) return false;
    note_length(posted_.back(), status);
    posted_.pop_back();
    communicator_->note_progress();
  }
  return true;
}

void MpiPending::note_length(const Posted& posted, const MPI_Status& status) {
  if (!posted.receives) return;
  int arrived = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &arrived), "MPI_Get_count");
  if (arrived != posted.bytes) complete_ = false;
}

bool MpiPending::withdraw() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return true;  // nothing moves any more
  std::erase_if(posted_, [](Posted& each) {
    int done = 0;
    if (each.receives) MPI_Cancel(&each.request);
    return MPI_Test(&each.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  });
  return posted_.empty();
}

}  // namespace hvd
