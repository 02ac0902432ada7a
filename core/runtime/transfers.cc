#include "core/runtime/transfers.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

using Direction = PointToPoint::Direction;

constexpr Duration kFenceInterval = std::chrono::microseconds(50);  // fences do not ring

// What goes wrong between the two ends of one transfer; anything else is a broken port.
bool concerns_one(const Status& status) {
  return status.code() == StatusCode::kMismatch || status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kUnsupported || status.code() == StatusCode::kStalled;
}

std::string describe(const PointToPoint& transfer) {
  const TensorView& tensor = transfer.tensor.view;
  std::ostringstream out;
  out << (transfer.direction == Direction::kSend ? "send to rank " : "receive from rank ")
      << transfer.peer << " with tag " << transfer.tag << " (" << tensor.numel << " of "
      << name_of(tensor.dtype) << ", " << tensor.bytes() << " bytes)";
  return out.str();
}

std::string describe(const PointToPoint& transfer, Duration waited) {
  std::ostringstream out;
  out << describe(transfer) << " has waited " << to_seconds(waited) << " s for the "
      << (transfer.direction == Direction::kSend ? "receive" : "send") << " there";
  return out.str();
}

}  // namespace

Transfers::Transfers(std::span<const std::unique_ptr<Collective>> world, const WaitLimits& limits,
                     std::shared_ptr<LoopOwnership> ownership)
    : world_(world), limits_(limits), ownership_(std::move(ownership)) {}

Handle Transfers::add(PointToPoint transfer) {
  auto added = std::make_shared<Transfer>(ownership_);
  added->what = std::move(transfer);
  added->limits = added->what.limits.value_or(limits_);
  Handle handle(std::shared_ptr<Completion>(added, &added->completion));
  const MutexLock lock(mutex_);
  if (!closed_.ok()) {
    const std::string name = describe(added->what);
    Status{closed_.code(), name + " was not submitted: " + closed_.message()}.throw_if_error();
  }
  in_flight_.insert(added);
  added_.push_back(std::move(added));
  any_added_ = true;
  return handle;
}

bool Transfers::advance(TimePoint now) {
  if (!failure_.ok()) return false;
  retired_.let_go();
  bool moved = start_added(now);
  for (TransferPtr& transfer : running_) {
    if (!advance(transfer) && !check_wait(transfer, now)) continue;
    transfer.reset();
    moved = true;
  }
  std::erase(running_, nullptr);
  return moved;
}

std::optional<std::string> Transfers::next_report() {
  if (reports_.empty()) return std::nullopt;
  std::string report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

TimePoint Transfers::next_deadline(TimePoint now) const {
  TimePoint deadline = TimePoint::max();
  if (!failure_.ok()) return deadline;
  for (const TransferPtr& transfer : running_) {
    if (transfer->moved) deadline = std::min(deadline, now + kFenceInterval);
    const auto [warning, limit] = transfer->limits;
    if (warning != Duration::zero() && !transfer->reported) {
      deadline = std::min(deadline, transfer->since + warning);
    }
    if (limit != Duration::zero()) deadline = std::min(deadline, transfer->since + limit);
  }
  return deadline;
}

std::vector<std::string> Transfers::close(const Status& why) {
  {
    const MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    running_.insert(running_.end(), added_.begin(), added_.end());
    added_.clear();
  }
  std::vector<std::string> ended;
  for (const TransferPtr& transfer : running_) {
    const std::string& name = ended.emplace_back(describe(transfer->what));
    end(transfer, {why.code(), name + ": " + why.message()});
  }
  running_.clear();
  return ended;
}

void Transfers::abandon(const Status& why) {
  std::set<TransferPtr> in_flight;
  {
    const MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    in_flight.swap(in_flight_);
  }
  for (const TransferPtr& transfer : in_flight) transfer->completion.finish(why);
}

bool Transfers::start_added(TimePoint now) {
  if (!any_added_) return false;
  std::vector<TransferPtr> added;
  {
    const MutexLock lock(mutex_);
    added.swap(added_);
    any_added_ = false;
  }
  for (TransferPtr& transfer : added) {
    transfer->since = now;
    try {
      start(*transfer);
    } catch (...) {
      if (fail(transfer, current_status())) continue;
    }
    running_.push_back(std::move(transfer));
  }
  return !added.empty();
}

void Transfers::start(Transfer& transfer) {
  const PointToPoint& what = transfer.what;
  const TensorView& tensor = what.tensor.view;
  const auto it = std::find_if(world_.begin(), world_.end(), [&](const auto& collective) {
    return collective->device() == tensor.device.kind;
  });
  if (it == world_.end()) throw UnsupportedError("no backend serves the device of the tensor");
  transfer.collective = it->get();
  transfer.operation = what.direction == Direction::kSend
                           ? (*it)->send(tensor, what.peer, what.tag)
                           : (*it)->receive(tensor, what.peer, what.tag);
}

// True when the transfer has ended.
bool Transfers::advance(const TransferPtr& transfer) {
  if (!failure_.ok()) return false;
  try {
    if (!transfer->moved) {
      if (!transfer->operation->advance()) return false;
      transfer->moved = transfer->collective->fence();
    }
    if (!transfer->moved->reached()) return false;
    transfer->moved->wait();  // throws if the device failed
  } catch (...) {
    return fail(transfer, current_status());
  }
  return end(transfer, {});
}

// A broken port ends no transfer: close() does, with the reason that the ranks agreed on.
bool Transfers::fail(const TransferPtr& transfer, const Status& status) {
  if (concerns_one(status)) return end(transfer, status);
  if (failure_.ok()) failure_ = status;
  return false;
}

// True when the transfer has waited too long.
bool Transfers::check_wait(const TransferPtr& transfer, TimePoint now) {
  const Duration waited = now - transfer->since;
  const auto [warning, limit] = transfer->limits;
  if (warning != Duration::zero() && waited >= warning && !transfer->reported) {
    transfer->reported = true;
    reports_.push_back(describe(transfer->what, waited));
  }
  if (limit == Duration::zero() || waited < limit) return false;
  return end(transfer, {StatusCode::kStalled,
                        describe(transfer->what, waited) + ", longer than the stall limit"});
}

// An asynchronous device may have copies in its queue, and MPI messages on their way.
void Transfers::retire(Transfer& transfer) {
  if (transfer.operation == nullptr) return;
  struct Rest {
    Lease tensor;
    std::unique_ptr<Operation> operation;  // goes first
  };
  try {
    Fence past = transfer.moved ? *transfer.moved : transfer.collective->fence();
    const auto rest =
        std::make_shared<Rest>(Rest{transfer.what.tensor, std::move(transfer.operation)});
    retired_.keep(rest, [&operation = *rest->operation, past = std::move(past)] {
      const bool withdrawn = operation.withdraw();
      return past.reached() && withdrawn;
    });
  } catch (...) {
    // A device that cannot even record a point runs nothing any more.
  }
}

// First the port lets go of the tensor, then its owner learns that it may have it back. Always
// true.
bool Transfers::end(const TransferPtr& transfer, const Status& status) {
  if (!status.ok()) retire(*transfer);
  transfer->operation.reset();
  {
    const MutexLock lock(mutex_);
    in_flight_.erase(transfer);
  }
  Parts parts(1);
  parts.front().input = std::move(transfer->what.tensor);
  transfer->completion.finish(status, {}, std::move(parts));
  return true;
}

}  // namespace hvd::engine
