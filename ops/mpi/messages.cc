#include "ops/mpi/messages.h"

#include <climits>
#include <string>

namespace hvd {
namespace {

// A sleep costs 50 us whatever it was meant to be; until then an answer is worth waiting for.
constexpr std::chrono::microseconds kEager{50};
constexpr std::chrono::microseconds kRelaxed{100};

}  // namespace

MpiCommunicator::MpiCommunicator(TimePoint deadline)
    : handle_(MpiEnvironment::instance().duplicate(deadline)) {
  check_mpi(MPI_Comm_rank(handle_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle_, &size_), "MPI_Comm_size");
}

void MpiCommunicator::begin_work() noexcept {
  ++work_;
  note_progress();
}

Duration MpiCommunicator::poll_interval() const noexcept {
  if (Clock::now() - last_progress_ < kEager) return Duration::zero();
  return kRelaxed;
}

MpiOutbox::MpiOutbox(std::shared_ptr<MpiCommunicator> communicator)
    : communicator_(std::move(communicator)) {}

MpiOutbox::~MpiOutbox() {
  if (sending_.empty()) return;
  MpiEnvironment::instance().note_failure();
  new std::deque<Sending>(std::move(sending_));
}

void MpiOutbox::send(Rank to, MpiTag tag, Bytes bytes) {
  if (bytes.size() > INT_MAX) {
    throw InternalError("a control message of " + std::to_string(bytes.size()) + " bytes");
  }
  Sending& sending = sending_.emplace_back();
  sending.bytes = std::move(bytes);
  const int code = MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                             to, static_cast<int>(tag), communicator_->handle(), &sending.request);
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

MpiInbox::MpiInbox(std::shared_ptr<MpiCommunicator> communicator, int source)
    : communicator_(std::move(communicator)), source_(source) {}

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
  check_mpi(MPI_Improbe(source_, MPI_ANY_TAG, communicator_->handle(), &found, &matched, &status),
            "MPI_Improbe");
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

}  // namespace hvd
