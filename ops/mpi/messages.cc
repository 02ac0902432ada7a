#include "ops/mpi/messages.h"

#include <algorithm>
#include <climits>

namespace hvd::engine {
namespace {

// A sleep costs 50 us whatever it was meant to be; until then an answer is worth waiting for.
constexpr std::chrono::microseconds kEager{50};
constexpr std::chrono::microseconds kRelaxed{100};
// What hangs in MPI's buffers makes another rank wait this long, or a fraction of what it waits
// already.
constexpr Duration kShortestLinger = std::chrono::milliseconds(5);
constexpr Duration kLongestLinger = std::chrono::seconds(1);
constexpr int kLingerFraction = 4;

}  // namespace

MpiCommunicator::MpiCommunicator(TimePoint deadline) {
  MpiEnvironment& environment = MpiEnvironment::instance();
  control_ = environment.duplicate(deadline);
  data_ = environment.duplicate(deadline);
  check_mpi(MPI_Comm_rank(control_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(control_, &size_), "MPI_Comm_size");
}

MpiCommunicator::~MpiCommunicator() {
  MpiEnvironment::instance().release(control_);
  MpiEnvironment::instance().release(data_);
}

void MpiCommunicator::begin_work() noexcept {
  ++work_;
  note_progress();
}

void MpiCommunicator::end_work() noexcept {
  if (--work_ > 0) return;
  last_work_ = Clock::now();
  next_linger_ = last_work_ + kShortestLinger;
}

std::optional<Duration> MpiCommunicator::linger_interval() const noexcept {
  if (last_work_ == TimePoint{}) return std::nullopt;
  return std::clamp((Clock::now() - last_work_) / kLingerFraction, kShortestLinger, kLongestLinger);
}

bool MpiCommunicator::linger(TimePoint now) {
  if (has_work() || last_work_ == TimePoint{} || now < next_linger_) return false;
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &found, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  next_linger_ = now + *linger_interval();
  return true;
}

Duration MpiCommunicator::poll_interval() const noexcept {
  if (Clock::now() - last_progress_ < kEager) return Duration::zero();
  return kRelaxed;
}

MpiOutbox::MpiOutbox(std::shared_ptr<MpiCommunicator> communicator, MPI_Comm handle)
    : communicator_(std::move(communicator)), handle_(handle) {}

MpiOutbox::~MpiOutbox() {
  if (sending_.empty()) return;
  MpiEnvironment::instance().note_failure();
  new std::deque<Sending>(std::move(sending_));
}

void MpiOutbox::send(Rank to, MpiTag tag, Bytes bytes) {
  if (bytes.size() > INT_MAX) {
    throw InternalError("a control message of ", bytes.size(), " bytes");
  }
  Sending& sending = sending_.emplace_back();
  sending.bytes = std::move(bytes);
  const int code = MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                             to, static_cast<int>(tag), handle_, &sending.request);
  if (code != MPI_SUCCESS) sending_.pop_back();
  check_mpi(code, "MPI_Isend");
  flush();
}

bool MpiOutbox::flush() {
  while (!sending_.empty()) {
    int done = 0;
    check_mpi(MPI_Test(&sending_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return false;
    sending_.pop_front();
  }
  return true;
}

MpiInbox::MpiInbox(std::shared_ptr<MpiCommunicator> communicator, MPI_Comm handle, int source,
                   int tag)
    : communicator_(std::move(communicator)), handle_(handle), source_(source), tag_(tag) {}

MpiInbox::~MpiInbox() {
  if (!receiving_) return;
  MpiEnvironment::instance().note_failure();
  new Bytes(std::move(arrival_.message.bytes));  // MPI may still write to it
}

std::optional<MpiInbox::Arrival> MpiInbox::poll() {
  if (!receiving_ && !start_receiving()) return std::nullopt;
  int done = 0;
  check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done == 0) return std::nullopt;
  receiving_ = false;
  return std::move(arrival_);
}

bool MpiInbox::start_receiving() {
  int found = 0;
  MPI_Message matched = MPI_MESSAGE_NULL;
  MPI_Status status;
  check_mpi(MPI_Improbe(source_, tag_, handle_, &found, &matched, &status), "MPI_Improbe");
  if (found == 0) return false;
  int count = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  arrival_ = {{status.MPI_SOURCE, Bytes(static_cast<std::size_t>(count))},
              static_cast<MpiTag>(status.MPI_TAG)};
  check_mpi(MPI_Imrecv(arrival_.message.bytes.data(), count, MPI_BYTE, &matched, &request_),
            "MPI_Imrecv");
  receiving_ = true;
  return true;
}

}  // namespace hvd::engine
