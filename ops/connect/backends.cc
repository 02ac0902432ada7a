#include "ops/connect/backends.h"

#include <algorithm>

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
#include "ops/net/tcp_control_plane.h"
#include "ops/self/self_backend.h"
#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"

namespace hvd {
namespace {

// Of what the ranks of a host share.
DataSegment::Needs memory_needs(const HostTopology& here) {
  if (here.shm) return DataSegment::needs(here.local_size(), {});
  const std::size_t mailboxes = Mailboxes::bytes_needed(here.local_size());
  return {mailboxes, mailboxes};
}

std::vector<Rank> remote_ranks(const Placement& placement) {
  const std::vector<Rank> locals = local_ranks(placement);
  std::vector<Rank> remote;
  for (Rank r = 0; r < placement.size(); ++r) {
    if (!std::binary_search(locals.begin(), locals.end(), r)) remote.push_back(r);
  }
  return remote;
}

// To the ranks of other hosts: over TCP, or by MPI's messages if the user prefers them (where only
// MPI's network connects the hosts). `bell`: of this host's control plane, if it has one.
std::unique_ptr<ControlPlane> make_remote_plane(MpiLink& link, const Placement& placement,
                                                const Config& config, const Doorbell* bell,
                                                TimePoint deadline) {
  if (config.control_plane == "mpi") {
    return link.make_control_plane(placement, remote_ranks(placement));
  }
  const AllGather all_gather = [&link](const std::string& mine, TimePoint limit) {
    return link.all_gather(mine, limit);
  };
  return connect_hosts(placement, config, bell, all_gather, deadline);
}

std::unique_ptr<ControlPlane> make_control_plane(MpiLink& link, const HostTopology& here,
                                                 const Config& config, const HostSharing& host,
                                                 TimePoint deadline) {
  const Placement& placement = here.placement;
  std::unique_ptr<ControlPlane> local;
  if (host.memory != nullptr) {
    local = std::make_unique<ShmControlPlane>(placement, host.memory, host.processes);
  }
  if (placement.hosts() == 1) return local;
  const Doorbell* bell = local != nullptr ? &local->doorbell() : nullptr;
  auto remote = make_remote_plane(link, placement, config, bell, deadline);
  if (local == nullptr) return remote;
  return std::make_unique<HierControlPlane>(std::move(local), std::move(remote));
}

// Among the ranks of this host.
std::unique_ptr<Collective> make_shm_collective(const HostTopology& here, HostSharing host) {
  const Rank place = topology_of(here.placement).local_rank;
  auto segment =
      std::make_unique<DataSegment>(std::move(host.memory), here.local_size(), place, ShmLimits{});
  return std::make_unique<ShmCollective>(std::move(segment),
                                         ArenaFiles(std::move(host.arena_files), place));
}

// How tensors move in a job with MPI.
std::unique_ptr<Collective> make_collective(MpiLink& link, const HostTopology& here,
                                            const Config& config, HostSharing host) {
  const Placement& placement = here.placement;
  std::unique_ptr<Collective> local;
  if (here.shm) local = make_shm_collective(here, std::move(host));
  if (local != nullptr && placement.hosts() == 1) return local;
  const HierOptions options = {.all_reduce = config.hierarchical_allreduce,
                               .all_gather = config.hierarchical_allgather,
                               .rank_order = config.deterministic};
  auto flat = link.make_collective();
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

void add_gpus(Ports& ports, Rendezvous& others, const HostTopology& here, const Config& config,
              TimePoint deadline) {
  if (config.gpu_operations == "none") return;
  add_gpus(ports, {name_of_host(config), topology_of(here.placement), here.placement.hosts()},
           config, [&](const std::string& mine) { return others.all_gather(mine, deadline); });
}

void expect_world(const LaunchInfo& launch, const MpiLink& link) {
  const bool same_size = !launch.size || *launch.size == link.size();
  const bool same_rank = !launch.rank || *launch.rank == link.rank();
  if (same_size && same_rank) return;
  const auto text = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string("?");
  };
  throw UnsupportedError(launch.launcher + " started rank " + text(launch.rank) + " of " +
                         text(launch.size) + ", but MPI sees rank " + std::to_string(link.rank()) +
                         " of " + std::to_string(link.size()) +
                         ": this MPI does not understand that launcher. Use the mpirun of the MPI "
                         "that horovod_cpp was built with; " +
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
    throw UnsupportedError(launch.launcher +
                           " started this process, but MPI cannot be used: " + library.detail);
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
  const HostTopology here = meet(*link, config, arguments, deadline);
  HostSharing host = share_host(*link, here, memory_needs(here), deadline);
  Ports ports;
  ports.control = make_control_plane(*link, here, config, host, deadline);
  ports.collectives.push_back(make_collective(*link, here, config, std::move(host)));
  add_gpus(ports, *link, here, config, deadline);
  ports.mpi_threads = link->threads_supported();
  ports.ended = [module = library.module](bool in_error) { module->job_ended(in_error); };
  ports.config = std::move(config);
  return ports;
}

[[noreturn]] void refuse_mpi_controller(const LaunchInfo& launch) {
  throw UnsupportedError("HOROVOD_CONTROLLER=mpi, but " + launch.launcher +
                         " started this process without MPI: use mpirun or hvdrun --mpi, or leave "
                         "HOROVOD_CONTROLLER alone");
}

// All ranks are on this machine, and MPI is not asked.
Ports connect_by_rendezvous(const LaunchInfo& launch, const Meeting& meeting, Config config,
                            std::span<const Term> arguments) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  const auto others = attend(meeting, deadline);
  set_log_rank(others->rank());
  const HostTopology here = meet(*others, config, arguments, deadline);
  if (config.controller == "mpi") refuse_mpi_controller(launch);
  if (here.placement.hosts() > 1) {
    throw UnsupportedError(launch.launcher + " started ranks on " +
                           std::to_string(here.placement.hosts()) + " hosts (" +
                           here.placement.host_names[0] + ", " + here.placement.host_names[1] +
                           (here.placement.hosts() > 2 ? ", ..." : "") +
                           "): without MPI all have to be on one; for several start the job with "
                           "hvdrun -H host:slots,...");
  }
  if (!here.shm) {
    throw UnsupportedError("HOROVOD_CPU_OPERATIONS=mpi, but " + launch.launcher +
                           " started this process without MPI: leave it alone, or use mpirun or "
                           "hvdrun --mpi");
  }
  HostSharing host = share_host(*others, here, memory_needs(here), deadline);
  Ports ports;
  ports.control = std::make_unique<ShmControlPlane>(here.placement, host.memory, host.processes);
  ports.collectives.push_back(make_shm_collective(here, std::move(host)));
  add_gpus(ports, *others, here, config, deadline);
  ports.config = std::move(config);
  return ports;
}

// Nothing if MPI has to connect the ranks: because they want it, or because only it can.
std::optional<Meeting> meeting_without_mpi(const LaunchInfo& launch, const Config& config) {
  if (!launch.speaks_mpi) {
    auto meeting = find_meeting(launch, config.rendezvous);
    if (!meeting && config.controller == "mpi") refuse_mpi_controller(launch);
    return meeting;
  }
  if (config.controller != "gloo") return std::nullopt;
  if (!config.rendezvous.empty()) return find_meeting(launch, config.rendezvous);
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
  if (launch.size == 1 && launch.rank.value_or(0) != 0) {
    throw InvalidArgumentError(launch.launcher + " started this process as rank " +
                               std::to_string(*launch.rank) +
                               " of 1: expected a rank below the size");
  }
  return launch.launcher.empty() || launch.size == 1;
}

}  // namespace

std::vector<BackendInfo> backends() {
  const MpiLibrary& mpi = mpi_library();
  std::vector<BackendInfo> rows = {
      {"self", true, "a world of one rank"},
      {"shm", true, "messages between the ranks of a host; tensors where all ranks are on one"},
      {"tcp", true, "control messages between hosts"},
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

}  // namespace hvd
