#include "ops/mpi/module.h"

#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/deadlines.h"
#include "core/base/fields.h"
#include "core/config/build_identity.h"
#include "core/config/log.h"
#include "ops/host/message_collective.h"
#include "ops/mpi/environment.h"
#include "ops/mpi/messages.h"
#include "ops/mpi/mpi_link.h"

namespace hvd::engine {
namespace {

constexpr std::chrono::milliseconds kProbe{1};  // between looks while the others start

constexpr std::chrono::microseconds kFlush{100};  // between looks at what is on its way

// Ranks of several hosts talk by MPI messages, where TCP does not connect them. MPI rings no bell,
// so this is polled with back-off; it cannot see a peer die, only one that says it failed.
class MpiControlPlane final : public ControlPlane {
 public:
  // Serves the ranks that `peers` lists.
  MpiControlPlane(std::shared_ptr<MpiCommunicator> communicator, Placement placement,
                  std::vector<Rank> peers)
      : ControlPlane(std::move(placement)),
        peers_(std::move(peers)),
        communicator_(communicator),
        outbox_(communicator, communicator->control()),
        failure_notices_(communicator, communicator->control()),
        inbox_(communicator, communicator->control(), MPI_ANY_SOURCE) {}
  // Gives what is still on its way one second to leave.
  ~MpiControlPlane() override {
    const TimePoint deadline = Clock::now() + flush_limit_;
    try {
      if (failure_pending_) tell_failure();
      while (!(outbox_.flush() && failure_notices_.flush()) && Clock::now() < deadline) {
        std::this_thread::sleep_for(kFlush);
      }
    } catch (const Error&) {
      MpiEnvironment::instance().note_failure();  // whom it was for is gone
    }
  }

  void send(Rank to, std::span<const std::byte> message) override {
    communicator_->note_progress();
    outbox_.send(to, MpiTag::kControl, Bytes(message.begin(), message.end()));
  }
  std::optional<Message> poll() override {
    if (failure_pending_) tell_failure();
    outbox_.flush();
    auto arrival = inbox_.poll();
    if (!arrival) return std::nullopt;
    communicator_->note_progress();
    if (arrival->tag == MpiTag::kControl) return std::move(arrival->message);
    const Rank from = arrival->message.from;
    throw LostRankError(from,
                        placement_.described(from) + " failed: " + to_text(arrival->message.bytes));
  }
  Doorbell& doorbell() noexcept override { return doorbell_; }
  std::optional<Duration> poll_interval() const override { return communicator_->poll_interval(); }
  void job_failed() noexcept override { flush_limit_ = kErrorFlushLimit; }
  void abort(const Status& why) noexcept override {
    if (aborted_.exchange(true)) return;
    MpiEnvironment::instance().note_failure();
    reason_ = why.message();
    failure_pending_ = true;
    if (MpiEnvironment::instance().concurrent()) tell_failure();
    doorbell_.ring();  // otherwise the coordinator tells
  }

 private:
  void tell_failure() noexcept {
    if (!failure_pending_.exchange(false)) return;
    const auto text = to_bytes(reason_);
    for (const Rank to : peers_) {
      try {
        failure_notices_.send(to, MpiTag::kFailure, Bytes(text.begin(), text.end()));
      } catch (const Error&) {
        continue;  // gone already: it need not know
      }
    }
  }

  std::vector<Rank> peers_;
  std::shared_ptr<MpiCommunicator> communicator_;
  MpiOutbox outbox_;
  MpiOutbox failure_notices_;  // of the thread that calls abort()
  MpiInbox inbox_;

  Duration flush_limit_ = kFlushLimit;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failure_pending_{false};  // reason_ is set and not told yet
  std::string reason_;

  DoorbellState bell_;
  Doorbell doorbell_{bell_};
};

class Link final : public MpiLink {
 public:
  Link(TimePoint deadline, InterruptibleWaits::Check program)
      : communicator_(std::make_shared<MpiCommunicator>(deadline)), program_(program) {}

  Rank rank() const noexcept override { return communicator_->rank(); }
  int size() const noexcept override { return communicator_->size(); }
  bool threads_supported() const noexcept override {
    return MpiEnvironment::instance().concurrent();
  }

  // By way of rank 0, because a collective call could not say who is missing.
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override {
    const InterruptibleWaits waits(program_);
    MpiOutbox outbox(communicator_, communicator_->control());
    Bytes all;
    if (rank() == 0) {
      all = collect(mine, deadline);
      for (Rank to = 1; to < size(); ++to) outbox.send(to, MpiTag::kBootstrap, all);
    } else {
      const auto bytes = to_bytes(mine);
      outbox.send(0, MpiTag::kBootstrap, Bytes(bytes.begin(), bytes.end()));
      all = await_answer(deadline + kTellingLimit);
    }
    while (!outbox.flush() && Clock::now() < deadline + kTellingLimit) {
      std::this_thread::sleep_for(kProbe);
    }
    look();
    return read_all(all);
  }

  std::unique_ptr<ControlPlane> make_control_plane(const Placement& placement,
                                                   std::vector<Rank> peers) override {
    return std::make_unique<MpiControlPlane>(communicator_, placement, std::move(peers));
  }
  std::unique_ptr<Collective> make_collective() override {
    return std::make_unique<host::MessageCollective>(
        std::make_shared<MpiMessageLink>(communicator_));
  }

 private:
  // After an interruption nothing of ours waits for MPI again.
  static void look() {
    if (InterruptibleWaits::ended()) MpiEnvironment::instance().note_failure();
    InterruptibleWaits::look();
  }

  // Rank 0: the encoding of all texts, or of why it gave up: at the deadline, the missing ranks.
  Bytes collect(const std::string& mine, TimePoint deadline) {
    std::vector<std::string> texts(static_cast<std::size_t>(size()));
    std::vector<bool> here(texts.size(), false);
    texts[0] = mine;
    here[0] = true;
    MpiInbox inbox(communicator_, communicator_->control(), MPI_ANY_SOURCE);
    for (std::size_t missing = texts.size() - 1; missing > 0;) {
      if (auto arrival = inbox.poll()) {
        const auto from = static_cast<std::size_t>(arrival->message.from);
        texts[from] = to_text(arrival->message.bytes);
        here[from] = true;
        --missing;
      } else if (Clock::now() >= deadline) {
        return encode_gather_failure(missing_ranks(here));
      } else if (InterruptibleWaits::ended()) {
        return encode_gather_failure(interrupted_meeting());
      } else {
        std::this_thread::sleep_for(kProbe);
      }
    }
    return encode_gathered(texts);
  }

  Bytes await_answer(TimePoint deadline) {
    MpiInbox inbox(communicator_, communicator_->control(), 0);
    while (Clock::now() < deadline) {
      if (auto arrival = inbox.poll()) return std::move(arrival->message.bytes);
      look();
      std::this_thread::sleep_for(kProbe);
    }
    return encode_gather_failure(missing_answer());
  }

  std::vector<std::string> read_all(const Bytes& bytes) {
    try {
      return decode_gathered(bytes, size());
    } catch (const Error&) {
      MpiEnvironment::instance().note_failure();
      throw;
    }
  }

  std::shared_ptr<MpiCommunicator> communicator_;
  const InterruptibleWaits::Check program_;
};

class Module final : public MpiModule {
 public:
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
    return text;  // some count its end in `length`
  }
  std::unique_ptr<MpiLink> connect(TimePoint deadline, bool serialized,
                                   InterruptibleWaits::Check look) override {
    const InterruptibleWaits waits(look);
    MpiEnvironment::instance().initialise(deadline, serialized);
    return std::make_unique<Link>(deadline, look);
  }
  void job_ended(bool in_error) noexcept override {
    MpiEnvironment::instance().job_ended(in_error);
  }
  void set_log_rank(Rank rank) override { hvd::set_log_rank(rank); }
};

}  // namespace
}  // namespace hvd::engine

extern "C" __attribute__((visibility("default"))) hvd::engine::MpiModule* hvd_mpi_module() {
  static hvd::engine::Module module;
  return &module;
}

extern "C" __attribute__((visibility("default"))) const char* hvd_mpi_build() {
  return hvd::build_identity();
}
