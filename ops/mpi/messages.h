#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/ports/control_plane.h"
#include "ops/mpi/environment.h"

namespace hvd::engine {

// Communicators of our own, freed with their last user: one for control messages, whose receivers
// take whatever comes, and one for tensors, whose tags are MpiTags.
class MpiCommunicator {
 public:
  // Collective; throws StalledError at the deadline.
  explicit MpiCommunicator(TimePoint deadline);
  ~MpiCommunicator();
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm control() const noexcept { return control_; }
  MPI_Comm data() const noexcept { return data_; }
  Rank rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // MPI moves data only while it is called and rings no doorbell. What runs over a communicator
  // counts itself here, and says when it moved, so that whoever sleeps knows how long it may.
  void begin_work() noexcept;
  void end_work() noexcept;
  void note_progress() noexcept { last_progress_ = Clock::now(); }
  bool has_work() const noexcept { return work_ != 0; }
  // At once while something moved lately, then every 100 us.
  Duration poll_interval() const noexcept;

  // A send may end before it is on the wire, and MPI does the rest only when it is called. So it is
  // called after the last work has ended too, ever less often. Empty before the first work.
  std::optional<Duration> linger_interval() const noexcept;
  bool linger(TimePoint now);  // true if MPI was called

 private:
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm data_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  int work_ = 0;
  TimePoint last_progress_;
  TimePoint last_work_;    // when none was left
  TimePoint next_linger_;  // when to call MPI again, unless there is work
};

// On the control communicator, and below MpiTags::kReserved on the one for data.
enum class MpiTag : int {
  kBootstrap = 1,
  kControl = 2,
  kFailure = 3,
  kNote = 4,  // data: what MessageLink says
};

// Messages on their way out; owns their memory until MPI is done with it.
class MpiOutbox {
 public:
  // `handle`: one of the communicator's.
  MpiOutbox(std::shared_ptr<MpiCommunicator> communicator, MPI_Comm handle);
  // What MPI still reads is left to it.
  ~MpiOutbox();
  MpiOutbox(const MpiOutbox&) = delete;
  MpiOutbox& operator=(const MpiOutbox&) = delete;

  void send(Rank to, MpiTag tag, Bytes bytes);
  // True when nothing is on its way any more.
  bool flush();

 private:
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    Bytes bytes;
  };
  std::shared_ptr<MpiCommunicator> communicator_;
  MPI_Comm handle_;
  std::deque<Sending> sending_;
};

// Messages that arrive, one at a time.
class MpiInbox {
 public:
  struct Arrival {
    Message message;
    MpiTag tag;
  };

  // From `source` or MPI_ANY_SOURCE with `tag` or MPI_ANY_TAG, in the order in which they were
  // sent. `handle`: one of the communicator's.
  MpiInbox(std::shared_ptr<MpiCommunicator> communicator, MPI_Comm handle, int source,
           int tag = MPI_ANY_TAG);
  ~MpiInbox();
  MpiInbox(const MpiInbox&) = delete;
  MpiInbox& operator=(const MpiInbox&) = delete;

  std::optional<Arrival> poll();

 private:
  bool start_receiving();

  std::shared_ptr<MpiCommunicator> communicator_;
  MPI_Comm handle_;
  int source_;
  int tag_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool receiving_ = false;
  Arrival arrival_;
};

}  // namespace hvd::engine
