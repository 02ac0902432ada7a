#pragma once

#include <mpi.h>

#include <deque>
#include <memory>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/runtime/control_plane.h"
#include "ops/mpi/environment.h"

namespace hvd {

// A communicator of our own, freed with its last user.
class MpiCommunicator {
 public:
  // Collective; throws StalledError at the deadline.
  explicit MpiCommunicator(TimePoint deadline);
  ~MpiCommunicator() { MpiEnvironment::instance().release(handle_); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm handle() const noexcept { return handle_; }
  Rank rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // MPI moves data only while it is called and rings nobody. What runs over this communicator
  // counts itself here, and says when it moved, so that whoever sleeps knows how long it may.
  void begin_work() noexcept;
  void end_work() noexcept { --work_; }
  void note_progress() noexcept { last_progress_ = Clock::now(); }
  bool has_work() const noexcept { return work_ != 0; }
  // At once while something moved lately, then every 100 us.
  Duration poll_interval() const noexcept;

 private:
  MPI_Comm handle_;
  int rank_ = 0;
  int size_ = 0;
  int work_ = 0;
  TimePoint last_progress_;
};

enum class MpiTag : int { kBootstrap = 1, kControl = 2, kFailure = 3 };

// Messages on their way out; owns their memory until MPI is done with it.
class MpiOutbox {
 public:
  explicit MpiOutbox(std::shared_ptr<MpiCommunicator> communicator);
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
  std::deque<Sending> sending_;
};

// Messages that arrive, one at a time.
class MpiInbox {
 public:
  struct Arrival {
    Message message;
    MpiTag tag;
  };

  // From `source` or MPI_ANY_SOURCE, in the order in which they were sent, whatever their tag.
  MpiInbox(std::shared_ptr<MpiCommunicator> communicator, int source);
  ~MpiInbox();
  MpiInbox(const MpiInbox&) = delete;
  MpiInbox& operator=(const MpiInbox&) = delete;

  std::optional<Arrival> poll();

 private:
  bool start_receiving();

  std::shared_ptr<MpiCommunicator> communicator_;
  int source_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool receiving_ = false;
  Arrival arrival_;
};

}  // namespace hvd
