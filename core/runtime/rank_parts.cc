#include "core/runtime/rank_parts.h"

#include <algorithm>
#include <utility>

#include "core/config/log.h"

namespace hvd::engine {
namespace {

// Devices belong to threads: CUDA has a current one in each.
bool others_may_run(const std::vector<std::unique_ptr<Collective>>& collectives) {
  return std::all_of(collectives.begin(), collectives.end(), [](const auto& collective) {
    return collective->device() == DeviceKind::kCpu;
  });
}

ReduceHere host_reduction(const std::vector<std::unique_ptr<Collective>>& collectives) {
  const auto host = std::ranges::find(collectives, DeviceKind::kCpu, &Collective::device);
  if (host == collectives.end()) return nullptr;
  return [port = host->get()](auto&&... arguments) { return port->reduce_here(arguments...); };
}

}  // namespace

RankParts::RankParts(std::unique_ptr<ControlPlane> control_plane,
                     std::vector<std::unique_ptr<Collective>> all_collectives, const Config& config,
                     const NegotiationSettings& settings, ObserverList all_observers,
                     CallerRunLoop& loop, Duration returns)
    : control(std::move(control_plane)),
      collectives(std::move(all_collectives)),
      topology(control->topology()),
      ownership(std::make_shared<LoopOwnership>(control->doorbell(), loop,
                                                others_may_run(collectives), returns)),
      table(ownership),
      sets(topology.size),
      transfers(collectives, {config.stall_warning, config.stall_limit}, ownership),
      observers(std::move(all_observers), topology),
      protocol(make_tree(topology.rank, control->host_of()), settings, 0,
               host_reduction(collectives)),
      notifier(control->doorbell()),
      executor(collectives, topology.rank, table, observers, control->doorbell(),
               config.async_completion) {
  executor.add_set(sets.find(kWorldSet));
}

namespace {

// The shortest of what `interval` says of each port.
std::optional<Duration> shortest(ControlPlane& control,
                                 const std::vector<std::unique_ptr<Collective>>& collectives,
                                 const auto& interval) {
  std::optional<Duration> shortest = interval(control);
  for (const auto& collective : collectives) shortest = earlier(shortest, interval(*collective));
  return shortest;
}

}  // namespace

std::optional<Duration> RankParts::poll_interval() const {
  return shortest(*control, collectives, [](const auto& port) { return port.poll_interval(); });
}

std::optional<Duration> RankParts::prepare_sleep() const {
  return shortest(*control, collectives, [](auto& port) { return port.prepare_sleep(); });
}

void RankParts::abort_ports(const Status& why) noexcept {
  for (const auto& collective : collectives) collective->abort();
  control->abort(why);
}

void RankParts::finish(Ticket ticket, std::int64_t number) {
  if (ticket == 0) return;
  const InFlightPtr entry = table.find(ticket);
  table.remove(ticket);
  entry->completion.finish({}, {.number = number});
}

void RankParts::fail(Ticket ticket, const Status& why) {
  const InFlightPtr entry = table.find(ticket);
  executor.hide_early(ticket);
  table.remove(ticket);
  if (runs_batches(entry->submission.request.kind)) observers.failed(ticket, entry->name(), why);
  entry->completion.finish(why);
}

void RankParts::warn(const std::string& text) {
  log(LogLevel::kWarning, text);
  notifier.report(text);
}

}  // namespace hvd::engine
