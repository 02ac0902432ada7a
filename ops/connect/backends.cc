#include "ops/connect/backends.h"

#include "core/base/status.h"
#include "core/config/launch_info.h"
#include "core/config/log.h"
#include "core/system/interruptible_waits.h"
#include "ops/connect/foreign_mpi.h"
#include "ops/connect/gpu_backends.h"
#include "ops/connect/host_topology.h"
#include "ops/connect/libraries.h"
#include "ops/connect/meeting.h"
#include "ops/hier/hier_collective.h"
#include "ops/hier/hier_control_plane.h"
#include "ops/host/message_collective.h"
#include "ops/net/tcp_control_plane.h"
#include "ops/net/tcp_link.h"
#include "ops/self/self_backend.h"
#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"

namespace hvd::engine {
namespace {

// Of what the ranks of a host share.
DataSegment::Needs memory_needs(const HostTopology& here) {
  if (here.shm) return DataSegment::needs(here.local_size(), {});
  const std::size_t mailboxes = Mailboxes::bytes_needed(here.local_size());
  return {mailboxes, mailboxes};
}

std::vector<Rank> remote_ranks(const Placement& placement) {
  std::vector<Rank> remote;
  for (Rank r = 0; r < placement.size(); ++r) {
    if (!placement.is_local(r)) remote.push_back(r);
  }
  return remote;
}

// How the ranks found each other: all of them, and with MPI if `mpi` is there.
struct World {
  Rendezvous& others;
  MpiLink* mpi;  // the same as `others`; null = without MPI
  HostTopology here;
  std::string launcher;
};

[[noreturn]] void refuse_setting(const World& world, const std::string& setting) {
  throw UnsupportedError(setting, ", but ", world.launcher,
                         " started this process without MPI: leave it alone, or use mpirun or "
                         "hvdrun --mpi");
}

struct ControlPlanes {
  std::unique_ptr<ControlPlane> whole;
  TcpControlPlane* tcp = nullptr;  // in it
};

// Inside this host through shared memory; to the ranks of other hosts over TCP, or by MPI's
// messages if the user prefers them (where only MPI's network connects the hosts).
ControlPlanes make_control_plane(const World& world, const Config& config, const HostSharing& host,
                                 TimePoint deadline) {
  const Placement& placement = world.here.placement;
  ControlPlanes made;
  std::unique_ptr<ShmControlPlane> local;
  if (host.memory != nullptr) {
    local = std::make_unique<ShmControlPlane>(placement, host.memory, host.processes);
  }
  std::unique_ptr<ControlPlane> remote;
  if (placement.hosts() > 1 && config.control_plane == "mpi") {
    if (world.mpi == nullptr) refuse_setting(world, "HVD_CONTROL_PLANE=mpi");
    remote = world.mpi->make_control_plane(placement, remote_ranks(placement));
  } else if (placement.hosts() > 1 || config.cpu_operations == "tcp") {
    DoorbellState* const bell = local != nullptr ? &local->doorbell_state() : nullptr;
    auto tcp = connect_hosts(world.others, placement, config, bell, deadline);
    made.tcp = tcp.get();
    remote = std::move(tcp);
  }
  if (local != nullptr && remote != nullptr) {
    made.whole = std::make_unique<HierControlPlane>(std::move(local), std::move(remote));
  } else {
    made.whole = local != nullptr ? std::move(local) : std::move(remote);
  }
  return made;
}

// Among the ranks of this host.
std::unique_ptr<Collective> make_shm_collective(const HostTopology& here, HostSharing host) {
  const Rank place = topology_of(here.placement).local_rank;
  auto segment =
      std::make_unique<DataSegment>(std::move(host.memory), here.local_size(), place, ShmLimits{});
  return std::make_unique<ShmCollective>(std::move(segment),
                                         ArenaFiles(std::move(host.arena_files), place));
}

// Between the ranks of several hosts, or of one that does without shared memory. `tcp` must outlive
// it.
std::unique_ptr<Collective> make_flat_collective(const World& world, const Config& config,
                                                 TcpControlPlane* tcp) {
  if (config.cpu_operations != "tcp" && world.mpi != nullptr) return world.mpi->make_collective();
  if (config.cpu_operations == "mpi") refuse_setting(world, "HOROVOD_CPU_OPERATIONS=mpi");
  if (tcp == nullptr) {
    throw InvalidArgumentError(
        "HOROVOD_CPU_OPERATIONS=tcp needs connections of its own between the hosts, which "
        "HVD_CONTROL_PLANE=mpi rules out: unset one of them");
  }
  return std::make_unique<host::MessageCollective>(std::make_shared<TcpLink>(*tcp));
}

// How tensors move.
std::unique_ptr<Collective> make_collective(const World& world, const Config& config,
                                            HostSharing host, TcpControlPlane* tcp) {
  const HostTopology& here = world.here;
  const Placement& placement = here.placement;
  std::unique_ptr<Collective> local;
  if (here.shm) local = make_shm_collective(here, std::move(host));
  if (local != nullptr && placement.hosts() == 1) return local;
  const HierOptions options = {.all_reduce = config.hierarchical_allreduce,
                               .all_gather = config.hierarchical_allgather,
                               .rank_order = config.deterministic};
  auto flat = make_flat_collective(world, config, tcp);
  if (placement.hosts() == 1 || (!options.all_reduce && !options.all_gather)) return flat;
  return HierCollective::make(std::move(flat), std::move(local), placement.rank, placement.host_of,
                              options);
}

// The collective of GPUs, which the ranks want.
void add_gpus(Ports& ports, const GpuTopology& here, const Config& config,
              const GpuAllGather& all_gather) {
  const NcclLibrary& library = nccl_library();
  auto gpus = connect_gpus(library, here, config, all_gather, *ports.collectives.front());
  if (gpus == nullptr) return;
  ports.collectives.push_back(std::move(gpus));
  ports.gpu = rank_gpu(library, here.place);
}

// Everything that the ranks share, once they have met.
Ports connect_world(const World& world, Config config, TimePoint deadline) {
  const HostTopology& here = world.here;
  HostSharing host = share_host(world.others, here, memory_needs(here), deadline);
  Ports ports;
  ControlPlanes control = make_control_plane(world, config, host, deadline);
  ports.control = std::move(control.whole);
  try {
    ports.collectives.push_back(make_collective(world, config, std::move(host), control.tcp));
    if (config.gpu_operations != "none") {
      add_gpus(ports, {name_of_host(config), topology_of(here.placement), here.placement.hosts()},
               config,
               [&](const std::string& mine) { return world.others.all_gather(mine, deadline); });
    }
  } catch (...) {  // the other ranks are connected by now, and learn why this one does not come
    ports.control->abort(current_status());
    throw;
  }
  ports.config = std::move(config);
  return ports;
}

void expect_world(const LaunchInfo& launch, const MpiLink& link) {
  const bool same_size = !launch.size || *launch.size == link.size();
  const bool same_rank = !launch.rank || *launch.rank == link.rank();
  if (same_size && same_rank) return;
  throw UnsupportedError(launch.launcher, " started ", place_in_job(launch), ", but MPI sees rank ",
                         link.rank(), " of ", link.size(),
                         ": this MPI does not understand that launcher. Use the mpirun of the MPI "
                         "that horovod_cpp was built with; ",
                         launch_advice(launch.launcher));
}

Ports connect_to_self(const Config& config) {
  Ports ports;
  ports.control = std::make_unique<SelfControlPlane>(name_of_host(config));
  ports.collectives.push_back(std::make_unique<SelfCollective>());
  ports.config = config;
  if (config.gpu_operations == "none") return ports;
  add_gpus(ports, {name_of_host(config), {}, 1}, config,
           [](const std::string& mine) { return std::vector{mine}; });
  return ports;
}

Ports connect_by_mpi(const LaunchInfo& launch, Config config, std::span<const Term> arguments) {
  const MpiLibrary& library = mpi_library();
  if (library.module == nullptr) {
    throw UnsupportedError(launch.launcher,
                           " started this process, but MPI cannot be used: ", library.detail);
  }
  const TimePoint deadline = Clock::now() + config.start_timeout;
  const auto link =
      library.module->connect(deadline, config.mpi_threads_disable, &InterruptibleWaits::look);
  expect_world(launch, *link);
  // Nothing said so before: a program that calls MPI_Init without a launcher has PMIX_RANK from
  // then on, and no size.
  if (link->size() == 1) return connect_to_self(config);
  set_log_rank(link->rank());
  library.module->set_log_rank(link->rank());
  const World world{*link, link.get(), meet(*link, config, arguments, deadline), launch.launcher};
  Ports ports = connect_world(world, std::move(config), deadline);
  ports.mpi_threads = link->threads_supported();
  ports.ended = [module = library.module](bool in_error) { module->job_ended(in_error); };
  return ports;
}

[[noreturn]] void refuse_mpi_controller(const LaunchInfo& launch) {
  throw UnsupportedError("HOROVOD_CONTROLLER=mpi, but ", launch.launcher,
                         " started this process without MPI: use mpirun or hvdrun --mpi, or leave "
                         "HOROVOD_CONTROLLER alone");
}

Ports connect_by_rendezvous(const LaunchInfo& launch, const Meeting& meeting, Config config,
                            std::span<const Term> arguments) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  set_log_rank(meeting.rank);
  const auto others = attend(meeting, deadline);
  const World world{*others, nullptr, meet(*others, config, arguments, deadline), launch.launcher};
  if (config.controller == "mpi") refuse_mpi_controller(launch);
  return connect_world(world, std::move(config), deadline);
}

// Nothing if MPI has to connect the ranks: because they want it, or because only it can.
std::optional<Meeting> meeting_without_mpi(const LaunchInfo& launch, const Config& config) {
  if (!launch.speaks_mpi) {
    auto meeting = find_meeting(launch, config);
    if (!meeting && config.controller == "mpi") refuse_mpi_controller(launch);
    return meeting;
  }
  if (config.controller != "gloo") return std::nullopt;
  if (!config.rendezvous.empty()) return find_meeting(launch, config);
  if (launch.rank == 0) {
    log(LogLevel::kWarning,
        "HOROVOD_CONTROLLER=gloo: MPI started this job and connects its ranks; without it they "
        "meet where HVD_RENDEZVOUS says, or if hvdrun starts them");
  }
  return std::nullopt;
}

// Whether this process is a job of its own. Half of a place in a larger one is a mistake, not that.
bool is_alone(const LaunchInfo& launch, const Config& config) {
  if (has_own_world()) return true;
  if (launch.launcher.empty() && !config.rendezvous.empty()) {
    throw InvalidArgumentError("HVD_RENDEZVOUS='" + config.rendezvous +
                               "', but nothing says which rank of how many this process is: set "
                               "HOROVOD_RANK and HOROVOD_SIZE too, or unset it");
  }
  const bool has_rank = environment("RANK").has_value();
  const bool by_hand = environment("HVD_RENDEZVOUS_KEY") ||
                       (environment("MASTER_ADDR") && environment("MASTER_PORT"));
  if (launch.launcher.empty() && by_hand && has_rank != environment("WORLD_SIZE").has_value()) {
    const std::vector names = {"RANK", "WORLD_SIZE"};
    throw InvalidArgumentError(names[has_rank ? 0 : 1], " is set, but ", names[has_rank ? 1 : 0],
                               " is not: a rank that is started by hand needs both, a program that "
                               "runs alone neither, or HVD_WORLD=self");
  }
  if (launch.size == 1 && launch.rank.value_or(0) != 0) {
    throw InvalidArgumentError(launch.launcher, " started this process as ", place_in_job(launch),
                               ": expected a rank below the size");
  }
  return launch.launcher.empty() || launch.size == 1;
}

}  // namespace

std::vector<BackendInfo> backends() {
  const MpiLibrary& mpi = mpi_library();
  std::vector<BackendInfo> rows = {
      {"self", true, "a world of one rank"},
      {"shm", true, "messages between the ranks of a host; tensors where all ranks are on one"},
      {"tcp", true, "messages and tensors between hosts"},
      {"mpi", mpi.module != nullptr, mpi.detail},
  };
  const auto of_gpus = gpu_backends(nccl_library());
  rows.insert(rows.end(), of_gpus.begin(), of_gpus.end());
  return rows;
}

Ports connect(const Config& config, std::span<const Term> arguments) {
  const LaunchInfo launch = read_launch_info();
  if (is_alone(launch, config)) return connect_to_self(config);
  take_place(launch);
  refuse_programs_of_mpi(launch, config);
  if (const auto meeting = meeting_without_mpi(launch, config)) {
    try {
      return connect_by_rendezvous(launch, *meeting, config, arguments);
    } catch (const StalledError& error) {
      if (!launch.speaks_mpi) throw;
      // Ranks that look for each other in two ways never meet, and so cannot compare how.
      throw StalledError(std::string(error.what()) +
                         "; this rank does not look for them by MPI, which started it, because of "
                         "HOROVOD_CONTROLLER=gloo and HVD_RENDEZVOUS: set both for all ranks");
    }
  }
  if (launch.speaks_mpi) return connect_by_mpi(launch, config, arguments);
  throw UnsupportedError(
      launch.launcher + " started this process (" +
      (launch.rank ? "rank " + std::to_string(*launch.rank) : "a rank it does not say") + " of " +
      (launch.size ? std::to_string(*launch.size) : "?") +
      (launch.local_rank ? ", local rank " + std::to_string(*launch.local_rank) : "") +
      "), but without MPI the ranks cannot find each other: " + launch_advice(launch.launcher) +
      ". On one machine HVD_RENDEZVOUS=file:///folder/name or MASTER_ADDR and MASTER_PORT do as "
      "well");
}

}  // namespace hvd::engine
