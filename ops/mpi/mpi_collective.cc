#include "ops/mpi/mpi_collective.h"

namespace hvd {

MpiCollective::MpiCollective(std::shared_ptr<MpiCommunicator> communicator,
                             MpiCollectiveLimits limits)
    : MpiCollective(
          std::make_shared<MpiSet>(std::make_shared<MpiShared>(std::move(communicator), limits))) {}

std::unique_ptr<Collective> MpiCollective::collective_of(std::shared_ptr<MpiSet> set) const {
  return std::unique_ptr<Collective>(new MpiCollective(std::move(set)));
}

std::optional<Duration> MpiCollective::poll_interval() const {
  const MpiCommunicator& communicator = *set_->shared().communicator;
  const bool moves = communicator.has_work() || set_->shared().transfers.restless();
  if (!moves) return communicator.linger_interval();
  return communicator.poll_interval();
}

void MpiCollective::progress(TimePoint now) {
  host::Transfers& transfers = set_->shared().transfers;
  const bool looked = set_->shared().communicator->linger(now);
  if (transfers.restless() || (looked && transfers.unsettled())) transfers.poll();
}

void MpiCollective::abort() noexcept {
  set_->abort();
  MpiEnvironment::instance().note_failure();
}

}  // namespace hvd
