#include "core/runtime/coordinator.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/messages/message.h"
#include "core/runtime/finite_check.h"
#include "core/system/core_binding.h"

namespace hvd {
namespace {

NegotiationSettings settings_from(const Config& config, int size) {
  NegotiationSettings settings;
  settings.fusion_threshold = config.fusion_threshold;
  settings.cache_capacity = config.cache_capacity;
  settings.batching_gap = config.batching_gap;
  settings.stall_warning = config.stall_warning;
  settings.stall_limit = config.stall_limit;
  settings.deterministic = config.deterministic || config.disable_group_fusion;
  if (size == 1) {  // there is nobody whose tensors could come later, or whose device is behind
    settings.batching_gap = Duration::zero();
    settings.batches_in_flight = std::numeric_limits<int>::max();
  }
  return settings;
}

// Devices belong to threads: CUDA has a current one in each.
bool others_may_drive(const std::vector<std::unique_ptr<Collective>>& collectives) {
  return std::all_of(collectives.begin(), collectives.end(), [](const auto& collective) {
    return collective->device() == DeviceKind::kCpu;
  });
}

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

ObserverList with(ObserverList observers, const std::shared_ptr<Autotune>& autotune) {
  if (autotune != nullptr) observers.push_back(autotune);
  return observers;
}

}  // namespace

Coordinator::Coordinator(std::unique_ptr<ControlPlane> control,
                         std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                         ObserverList observers)
    : control_(std::move(control)),
      collectives_(std::move(collectives)),
      topology_(control_->topology()),
      spin_limits_(spin_limits(cores_per_rank(topology_.local_size))),
      cores_(config.thread_affinity),
      checks_nan_(config.check_nan),
      settings_(settings_from(config, topology_.size)),
      answer_limit_(config.shutdown_timeout),
      autotune_(make_autotune(config, *control_)),
      ownership_(std::make_shared<LoopOwnership>(
          control_->doorbell(), *this, others_may_drive(collectives_), spin_limits_.returns)),
      table_(ownership_),
      sets_(topology_.size),
      transfers_(collectives_, {config.stall_warning, config.stall_limit}, ownership_),
      observers_(with(std::move(observers), autotune_), topology_),
      protocol_(make_tree(topology_.rank, control_->host_of()), settings_),
      device_watch_(topology_.size == 1 ? config.stall_warning : Duration::zero(),
                    config.stall_limit),
      notifier_(control_->doorbell()),
      executor_(collectives_, topology_.rank, table_, observers_, control_->doorbell(),
                config.async_completion) {
  executor_.add_set(sets_.find(kWorldSet));
  set_waiter_spin(spin_limits_.waiter);
}

Coordinator::~Coordinator() {
  ownership_->close();
}

template <typename Action>
void Coordinator::stop_if_it_throws(Action action) noexcept {
  try {
    action();
  } catch (...) {
    const Status why = current_status();
    abort_ports(why);
    stop(why, false);
    phase_ = Phase::kEnded;
  }
}

void Coordinator::run() noexcept {
  Doorbell& bell = control_->doorbell();
  stop_if_it_throws([this] { pin_this_thread(cores_, topology_.local_rank); });
  TimePoint active{};  // when something moved here or a peer rang
  for (auto before = bell.rings(); phase_ != Phase::kEnded;) {
    const auto seen = bell.rings();
    const TimePoint now = Clock::now();
    const bool moved = turn(now);
    if (moved || seen != std::exchange(before, seen)) active = now;
    if (!moved && !spin(seen, active)) rest(seen, now);
  }
  end();
}

bool Coordinator::run_now() noexcept {
  while (phase_ != Phase::kEnded && anything_left()) {
    if (!turn(Clock::now())) return false;
  }
  if (phase_ == Phase::kEnded) end();
  return true;
}

void Coordinator::end() noexcept {
  ended_ = true;
  end_bell_.ring();
}

CallerRunLoop::Rest Coordinator::drive(const Completion& awaited, TimePoint deadline) noexcept {
  Doorbell& bell = control_->doorbell();
  TimePoint active = Clock::now();
  set_deferred_wake(false);
  for (auto before = bell.rings();;) {
    const auto seen = bell.rings();
    const TimePoint now = Clock::now();
    const bool moved = turn(now);
    if (awaited.done() || now >= deadline || phase_ == Phase::kEnded) {
      set_deferred_wake(true);
      return {seen, moved && anything_left() ? now : sleep_until(now)};
    }
    if (moved || seen != std::exchange(before, seen)) active = now;
    if (moved || spin(seen, active)) continue;
    bell.listen(Listener::kLoopOwner);
    bell.sleep(seen, std::min(deadline, sleep_until(now)), Listener::kLoopOwner);
    bell.ignore(Listener::kLoopOwner);
  }
}

void Coordinator::leave() noexcept {
  leave_asked_ = true;
  wake();
}

void Coordinator::expect_wait_for_root(Duration wait) {
  if (topology_.rank != 0) return;
  post([this, deadline = Clock::now() + wait] { protocol_.expect_wait_for_root(deadline); });
}

void Coordinator::change_settings(std::function<void(NegotiationSettings&)> change) {
  post([this, change = std::move(change)] {
    change(settings_);
    protocol_.change_settings(settings_);
  });
}

void Coordinator::post(std::function<void()> command) {
  {
    const MutexLock lock(mutex_);
    commands_.push_back(std::move(command));
  }
  any_command_.store(true, std::memory_order_release);
  wake();
}

// One look at everything; true if something moved.
bool Coordinator::turn(TimePoint now) noexcept {
  bool moved = true;
  stop_if_it_throws([&] { moved = work(now); });
  return moved;
}

bool Coordinator::work(TimePoint now) {
  turns_.fetch_add(1, std::memory_order_relaxed);
  bool moved = apply_effects();  // a stopped protocol takes no submissions
  if (phase_ == Phase::kRunning && !left_) {
    run_commands();
    moved |= announce();
  }
  send();
  moved |= receive();
  protocol_.tick(now);
  observers_.tick(now, protocol_.settings().observed);
  send();  // a node forwards a decision before it executes it
  moved |= apply_effects();
  moved |= advance_batches(now);
  moved |= advance_transfers(now);
  send();
  return check_phase(now) || moved;
}

// A host tensor is announced when it can be read; its fence does not ring.
bool Coordinator::readable(const InFlight& entry) {
  if (entry.submission.request.device != DeviceKind::kCpu) return true;
  if (!entry.submission.ready.reached()) return false;
  entry.submission.ready.wait();  // throws if its device failed
  return true;
}

void Coordinator::run_commands() {
  if (any_command_.exchange(false, std::memory_order_acq_rel)) {
    std::vector<std::function<void()>> commands;
    {
      const MutexLock lock(mutex_);
      commands.swap(commands_);
    }
    for (const auto& command : commands) command();
  }
  if (topology_.rank == 0 && observers_.wants_observed() != settings_.observed) {
    settings_.observed = !settings_.observed;
    protocol_.change_settings(settings_);
  }
  if (const auto tuned = autotune_ ? autotune_->take_change() : std::nullopt) {
    settings_.fusion_threshold = tuned->fusion_threshold;
    settings_.batching_gap = tuned->batching_gap;
    protocol_.change_settings(settings_);
  }
  if (const auto where = notifier_.next_answer()) protocol_.status_reported(*where);
}

// True if something was announced.
bool Coordinator::announce() {
  const bool leave = leave_asked_;  // before the table is read: what came before it is announced
  auto added = table_.take_added();
  if (!unready_.empty()) {
    added.insert(added.begin(), std::make_move_iterator(unready_.begin()),
                 std::make_move_iterator(unready_.end()));
    unready_.clear();
  }
  for (const InFlightPtr& entry : added) {
    if (!announce(entry)) return true;
  }
  const std::size_t announced = added.size() - unready_.size();
  if (announced > 0) expect_more(announced);
  if (!leave) return announced > 0;
  left_ = true;
  phase_deadline_ = std::min(phase_deadline_, Clock::now() + answer_limit_);
  protocol_.leave();
  return true;
}

// False when this rank has failed.
bool Coordinator::announce(const InFlightPtr& entry) {
  try {
    if (!readable(*entry)) {
      unready_.push_back(entry);
      return true;
    }
  } catch (...) {
    fail(current_status());
    return false;
  }
  try {
    if (checks_nan_) {
      entry->submission.request.not_finite = describe_not_finite(entry->submission, entry->ticket);
    }
    protocol_.submit(entry->ticket, entry->submission.request);
    if (!runs_batches(entry->submission.request.kind)) return true;
    entry->announced = Clock::now();
    observers_.submitted(*entry, entry->announced);
  } catch (const InvalidArgumentError& error) {
    // Another thread removed the process set since the submission was checked.
    fail(entry->ticket, error.status());
  }
  return true;
}

bool Coordinator::receive() {
  bool moved = false;
  for (;;) {
    try {
      const auto message = control_->poll();
      if (!message) return moved;
      moved = true;
      if (is_observation(message->bytes)) {
        observers_.receive(message->from, message->bytes, Clock::now());
      } else {
        protocol_.receive(message->from, message->bytes);
      }
    } catch (const LostRankError& lost) {
      on_lost(lost.rank(), lost.status());
      moved = true;
    } catch (...) {
      fail(current_status());
      return moved;
    }
  }
}

bool Coordinator::advance_batches(TimePoint now) {
  bool moved = executor_.advance(now);
  while (auto done = executor_.next_finished()) {
    protocol_.finished(done->number);
    protocol_.reuse(std::move(*done));
  }
  moved |= finish_joins();
  watch_devices(now);
  if (!executor_.failure().ok()) fail(executor_.failure());
  return moved;
}

bool Coordinator::advance_transfers(TimePoint now) {
  if (phase_ == Phase::kLeaving || phase_ == Phase::kEnded) return false;
  const bool moved = transfers_.advance(now);
  while (const auto report = transfers_.next_report()) warn(*report);
  if (!transfers_.failure().ok()) fail(transfers_.failure());
  return moved;
}

void Coordinator::send() {
  while (auto message = protocol_.next_message()) {
    send(*message);
    protocol_.reuse(std::move(*message));
  }
  while (const auto message = observers_.next_message()) send(*message);
}

void Coordinator::send(const OutgoingMessage& message) {
  try {
    control_->send(message.to, message.bytes);
  } catch (const LostRankError& lost) {
    on_lost(lost.rank(), lost.status());
  } catch (...) {
    fail(current_status());
  }
}

}  // namespace hvd
