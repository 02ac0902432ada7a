#include "ops/mpi/module.h"

#include <mpi.h>

#include <thread>

#include "core/base/deadlines.h"
#include "core/config/build_identity.h"
#include "core/config/log.h"
#include "ops/mpi/environment.h"
#include "ops/mpi/messages.h"
#include "ops/mpi/mpi_collective.h"
#include "ops/mpi/mpi_control_plane.h"

namespace hvd {
namespace {

constexpr std::chrono::milliseconds kProbe{1};  // between looks while the others start

Bytes to_bytes(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::string to_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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
      outbox.send(0, MpiTag::kBootstrap, to_bytes(mine));
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
    return std::make_unique<MpiCollective>(communicator_, MpiCollectiveLimits{});
  }

 private:
  // After an interruption nothing of ours waits for MPI again.
  static void look() {
    if (InterruptibleWaits::ended()) MpiEnvironment::instance().note_failure();
    InterruptibleWaits::look();
  }

  // Rank 0: the encoding of all texts, or of why it gave up: at the deadline of who is missing.
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
}  // namespace hvd

extern "C" __attribute__((visibility("default"))) hvd::MpiModule* hvd_mpi_module() {
  static hvd::Module module;
  return &module;
}

extern "C" __attribute__((visibility("default"))) const char* hvd_mpi_build() {
  return hvd::build_identity();
}
