#include "core/runtime/coordinator.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/config/log.h"
#include "core/negotiate/messages/message.h"
#include "core/system/core_binding.h"

namespace hvd::engine {
namespace {

// Limits of the values that travel with announcements. Rank 0 copies and reduces all of them, so
// that larger ones are slower than an operation. Where all ranks are on one host with a core each,
// they reduce at the same time instead, and are faster from 1 KiB on.
constexpr std::size_t kEagerBytes = 16 << 10;        // of all ranks
constexpr std::size_t kEagerBytesOnAHost = 1 << 10;  // of each rank
constexpr int kEagerRanks = 64;                      // at most

std::size_t eager_limit(const Topology& topology) {
  if (topology.size == 1 || topology.size > kEagerRanks) return 0;
  const std::size_t most = kEagerBytes / static_cast<std::size_t>(topology.size);
  const bool at_once =
      topology.local_size == topology.size && cores_per_rank(topology.local_size) >= 1;
  return at_once ? std::min(most, kEagerBytesOnAHost) : most;
}

NegotiationSettings settings_from(const Config& config, const Topology& topology) {
  NegotiationSettings settings;
  settings.fusion_threshold = config.fusion_threshold;
  settings.cache_capacity = config.cache_capacity;
  settings.batching_gap = config.batching_gap;
  settings.stall_warning = config.stall_warning;
  settings.stall_limit = config.stall_limit;
  settings.deterministic = config.deterministic || config.disable_group_fusion;
  settings.eager_bytes = eager_limit(topology);
  if (topology.size == 1) {  // no other rank's tensors could come later, or device be behind
    settings.batching_gap = Duration::zero();
    settings.batches_in_flight = std::numeric_limits<int>::max();
  }
  return settings;
}

// At least one turn in this time, for what does not ring: submissions that their thread meant to
// wait for at once and did not, timers that a thread set which ran the loop.
constexpr Duration kHeartbeat = std::chrono::seconds(1);
constexpr Duration kUnreadyInterval = std::chrono::microseconds(50);  // fences do not ring

// The other ranks are connected by now and learn why this one does not come.
std::shared_ptr<Autotune> make_autotune(const Config& config, ControlPlane& control) {
  const Topology topology = control.topology();
  if (!config.autotune || topology.rank != 0 || topology.size == 1) return nullptr;
  try {
    return std::make_shared<Autotune>(config);
  } catch (const Error& error) {
    control.abort(error.status());
    throw;
  }
}

// A host tensor is announced when it can be read; its fence does not ring.
bool readable(const InFlight& entry) {
  if (entry.submission.request.device != DeviceKind::kCpu) return true;
  if (!entry.submission.ready.reached()) return false;
  entry.submission.ready.wait();  // throws if its device failed
  return true;
}

SubmissionInfo info_of(const InFlight& entry) {
  const Request& request = entry.submission.request;
  SubmissionInfo info{.ticket = entry.ticket,
                      .name = request.name,
                      .kind = request.kind,
                      .dtype = request.dtype,
                      .set = request.set,
                      .bytes = 0,
                      .automatic_name = request.automatic_name,
                      .submitted = entry.announced};
  for (const Part& part : entry.submission.parts) info.bytes += part.input.view.bytes();
  return info;
}

ObserverList with(ObserverList observers, const std::shared_ptr<Autotune>& autotune) {
  if (autotune != nullptr) observers.push_back(autotune);
  return observers;
}

}  // namespace

Coordinator::Coordinator(std::unique_ptr<ControlPlane> control,
                         std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                         ObserverList observers)
    : spin_limits_(spin_limits(cores_per_rank(control->topology().local_size))),
      cores_(config.thread_affinity),
      checks_nan_(config.check_nan),
      settings_(settings_from(config, control->topology())),
      autotune_(make_autotune(config, *control)),
      parts_(std::move(control), std::move(collectives), config, settings_,
             with(std::move(observers), autotune_), *this, spin_limits_.returns),
      control_(parts_.control->doorbell()),
      end_(parts_, config.shutdown_timeout),
      effects_(parts_, end_),
      idle_(parts_.control->doorbell(), *parts_.ownership, spin_limits_),
      device_watch_(parts_.topology.size == 1 ? config.stall_warning : Duration::zero(),
                    config.stall_limit) {
  set_waiter_spin(spin_limits_.waiter);
}

Coordinator::~Coordinator() {
  parts_.ownership->close();
}

template <typename Action>
void Coordinator::stop_if_it_throws(Action action) noexcept {
  try {
    action();
  } catch (...) {
    end_.give_up(current_status());
  }
}

void Coordinator::run() noexcept {
  Doorbell& bell = parts_.control->doorbell();
  stop_if_it_throws([this] { pin_this_thread(cores_, parts_.topology.local_rank); });
  TimePoint active{};  // when something moved here or a peer rang
  for (auto before = bell.rings(); !end_.over();) {
    const auto seen = bell.rings();
    const TimePoint now = Clock::now();
    const Turn did = turn(now);
    if (did != Turn::kIdle || seen != std::exchange(before, seen)) active = now;
    if (did == Turn::kMoved || spin(seen, active)) continue;
    set_deferred_wake(true);
    idle_.rest(seen, now, std::min(sleep_until(now), now + kHeartbeat));
  }
  control_.end();
}

bool Coordinator::run_now() noexcept {
  while (!end_.over() && anything_left()) {
    if (turn(Clock::now()) == Turn::kIdle) return false;
  }
  if (end_.over()) control_.end();
  return true;
}

CallerRunLoop::Rest Coordinator::run_until(const Completion& awaited, TimePoint deadline) noexcept {
  Doorbell& bell = parts_.control->doorbell();
  TimePoint active = Clock::now();
  set_deferred_wake(false);
  for (auto before = bell.rings();;) {
    const auto seen = bell.rings();
    const TimePoint now = Clock::now();
    const Turn did = turn(now);
    if (awaited.done() || now >= deadline || end_.over()) {
      set_deferred_wake(true);
      return {seen, did != Turn::kIdle && anything_left() ? now : sleep_until(now)};
    }
    if (did != Turn::kIdle || seen != std::exchange(before, seen)) active = now;
    if (did == Turn::kMoved || spin(seen, active)) continue;
    bell.listen(Listener::kLoopOwner);
    bell.sleep(seen, std::min(deadline, sleep_until(now)), Listener::kLoopOwner);
    bell.ignore(Listener::kLoopOwner);
  }
}

void Coordinator::expect_wait_for_root(Duration wait) {
  if (parts_.topology.rank != 0) return;
  control_.post(
      [this, deadline = Clock::now() + wait] { parts_.protocol.expect_wait_for_root(deadline); });
}

void Coordinator::change_settings(std::function<void(NegotiationSettings&)> change) {
  if (parts_.topology.rank != 0) {
    throw InvalidArgumentError("the settings of a job are changed on rank 0, not on rank " +
                               std::to_string(parts_.topology.rank));
  }
  control_.post([this, change = std::move(change)] {
    change(settings_);
    parts_.protocol.change_settings(settings_);
  });
}

// Serves everything once.
Coordinator::Turn Coordinator::turn(TimePoint now) noexcept {
  Turn did = Turn::kMoved;
  stop_if_it_throws([&] { did = work(now); });
  return did;
}

Coordinator::Turn Coordinator::work(TimePoint now) {
  control_.begin_turn();
  bool moved = effects_.apply();  // a stopped protocol takes no submissions
  bool announced = false;
  if (end_.accepts()) {
    run_commands();
    announced = announce();
  }
  send();
  moved |= receive();
  parts_.protocol.tick(now);
  parts_.observers.tick(now, parts_.protocol.settings().observed);
  send();  // a node forwards a decision before it executes it
  moved |= effects_.apply();
  moved |= advance_batches(now);
  moved |= advance_transfers(now);
  send();
  if (end_.check(now) || moved) return Turn::kMoved;
  return announced ? Turn::kAnnounced : Turn::kIdle;
}

void Coordinator::run_commands() {
  control_.run_commands();
  if (parts_.topology.rank == 0 && parts_.observers.wants_observed() != settings_.observed) {
    settings_.observed = !settings_.observed;
    parts_.protocol.change_settings(settings_);
  }
  if (const auto tuned = autotune_ ? autotune_->take_change() : std::nullopt) {
    settings_.fusion_threshold = tuned->fusion_threshold;
    settings_.batching_gap = tuned->batching_gap;
    parts_.protocol.change_settings(settings_);
  }
  if (const auto where = parts_.notifier.take_location()) parts_.protocol.status_reported(*where);
}

// True if something was announced.
bool Coordinator::announce() {
  // Before the table is read: what came before it is announced.
  const bool leave = control_.leave_asked();
  auto added = parts_.table.take_added();
  if (!parts_.unready.empty()) {
    added.insert(added.begin(), std::make_move_iterator(parts_.unready.begin()),
                 std::make_move_iterator(parts_.unready.end()));
    parts_.unready.clear();
  }
  for (const InFlightPtr& entry : added) {
    if (!announce(entry)) return true;
  }
  const std::size_t announced = added.size() - parts_.unready.size();
  // A thread that submits while earlier submissions are in flight is likely to go on.
  if (announced > 0 && parts_.table.count() > announced) idle_.expect_more();
  if (!leave) return announced > 0;
  end_.leave();
  return true;
}

// False when this rank has failed.
bool Coordinator::announce(const InFlightPtr& entry) {
  try {
    if (!readable(*entry)) {
      parts_.unready.push_back(entry);
      return true;
    }
  } catch (...) {
    end_.fail(current_status());
    return false;
  }
  try {
    if (checks_nan_) {
      entry->submission.request.not_finite = describe_not_finite(entry->submission, entry->ticket);
    }
    const bool alone = parts_.table.count() == 1;
    const std::size_t most = alone ? parts_.protocol.settings().eager_bytes : 0;
    const bool eager = parts_.protocol.submit(entry->ticket, entry->submission.request,
                                              eager_values(entry->submission, most));
    if (alone && !eager) parts_.executor.show_early(*entry);
    if (!runs_batches(entry->submission.request.kind)) return true;
    entry->announced = Clock::now();
    if (!parts_.observers.empty()) parts_.observers.submitted(info_of(*entry));
  } catch (const InvalidArgumentError& error) {
    // Another thread removed the process set since the submission was checked.
    parts_.fail(entry->ticket, error.status());
  }
  return true;
}

bool Coordinator::receive() {
  bool moved = false;
  for (;;) {
    try {
      auto message = parts_.control->poll();
      if (!message) return moved;
      moved = true;
      if (is_observation(message->bytes)) {
        receive_observation(*message);
      } else {
        parts_.protocol.receive(message->from, message->bytes);
      }
      parts_.control->reuse(std::move(message->bytes));
    } catch (const LostRankError& lost) {
      end_.peer_lost(lost.rank(), lost.status());
      moved = true;
    } catch (...) {
      end_.fail(current_status());
      return moved;
    }
  }
}

// What is malformed of what observers say does not concern the job.
void Coordinator::receive_observation(const Message& message) {
  try {
    parts_.observers.receive(message.from, message.bytes, Clock::now());
  } catch (const PeerLostError& error) {
    if (std::exchange(warned_of_observation_, true)) return;
    log(LogLevel::kWarning,
        "what the observers of rank " + std::to_string(message.from) +
            " sent is not used, nor is what follows of its kind: " + error.what());
  }
}

bool Coordinator::advance_batches(TimePoint now) {
  bool moved = parts_.executor.advance(now);
  while (auto done = parts_.executor.next_finished()) {
    parts_.protocol.finished(done->number);
    parts_.protocol.reuse(std::move(*done));
  }
  moved |= effects_.finish_joins();
  watch_devices(now);
  if (!parts_.executor.failure().ok()) end_.fail(parts_.executor.failure());
  return moved;
}

bool Coordinator::advance_transfers(TimePoint now) {
  if (end_.all_ended()) return false;
  const bool moved = parts_.transfers.advance(now);
  while (const auto report = parts_.transfers.next_report()) parts_.warn(*report);
  if (!parts_.transfers.failure().ok()) end_.fail(parts_.transfers.failure());
  return moved;
}

// Rank 0 watches batches as long as they run on the first rank of their process set, and has no
// other to ask in a world of one.
void Coordinator::watch_devices(TimePoint now) {
  device_watch_.set_limit(parts_.protocol.settings().stall_limit);
  if (!device_watch_.due(now)) return;
  const BatchWatch::Findings found = device_watch_.check(
      now, parts_.topology.size == 1 ? parts_.executor.unfinished() : parts_.executor.on_devices());
  if (found.warning) parts_.warn(*found.warning);
  if (!found.failure.ok()) end_.fail(found.failure);
}

void Coordinator::send() {
  while (auto message = parts_.protocol.next_message()) {
    send(*message);
    parts_.protocol.reuse(std::move(*message));
  }
  while (const auto message = parts_.observers.next_message()) send(*message);
}

void Coordinator::send(const OutgoingMessage& message) {
  try {
    parts_.control->send(message.to, message.bytes);
  } catch (const LostRankError& lost) {
    end_.peer_lost(lost.rank(), lost.status());
  } catch (...) {
    end_.fail(current_status());
  }
}

TimePoint Coordinator::sleep_until(TimePoint now) const {
  TimePoint deadline = end_.next_deadline();
  if (const auto timer = parts_.protocol.next_deadline()) deadline = std::min(deadline, *timer);
  if (const auto timer = parts_.observers.next_deadline()) {
    deadline = std::min(deadline, *timer);
  }
  if (parts_.executor.busy()) {
    deadline = std::min(deadline, device_watch_.next_check().value_or(deadline));
  }
  deadline = std::min(deadline, parts_.transfers.next_deadline(now));
  if (const auto interval = parts_.prepare_sleep()) deadline = std::min(deadline, now + *interval);
  if (!parts_.unready.empty()) deadline = std::min(deadline, now + kUnreadyInterval);
  if (control_.leave_asked()) deadline = std::min(deadline, now + kHeartbeat);
  return deadline;
}

bool Coordinator::spin(std::uint32_t seen, TimePoint active) const {
  return idle_.spin(seen, active, parts_.poll_interval(), [this] { return parts_.in_flight(); });
}

// True if work is left when the caller that ran the loop returns.
bool Coordinator::anything_left() const {
  return !end_.running() || control_.leave_asked() || parts_.in_flight() ||
         parts_.transfers.any_added();
}

// Process sets without this rank may need its answers at any time.
void Coordinator::set_deferred_wake(bool idle) noexcept {
  Doorbell& bell = parts_.control->doorbell();
  if (idle && !anything_left() && parts_.sets.count() == 1) {
    bell.listen(kDefersWake);
  } else {
    bell.ignore(kDefersWake);
  }
}

}  // namespace hvd::engine
