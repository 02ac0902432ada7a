#include "ops/backends.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>

#include "core/base/launch_info.h"
#include "core/base/log.h"
#include "core/base/placement.h"
#include "ops/hier/hier_collective.h"
#include "ops/hier/hier_control_plane.h"
#include "ops/mpi_library.h"
#include "ops/self/self_collective.h"
#include "ops/self/self_control_plane.h"
#include "ops/shm/process.h"
#include "ops/shm/shm_control_plane.h"
#include "ops/tcp/connect_hosts.h"

namespace hvd {
namespace {

#ifdef HVD_WITH_MPI
constexpr const char* kMpiBuildFolder = HVD_WITH_MPI;
#else
constexpr const char* kMpiBuildFolder = "";
#endif

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Hosts may share a name, and one machine may have had another life: the boot tells them apart.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// What each rank tells the others when they meet.
struct Introduction {
  std::string identity;
  std::string host;
  ProcessId process;
};

std::string encode(const Introduction& introduction) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_string(introduction.identity);
  writer.put_string(introduction.host);
  writer.put(static_cast<std::int64_t>(introduction.process.pid));
  writer.put(introduction.process.start_time);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Introduction decode(const std::string& text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  Introduction introduction;
  introduction.identity = reader.get_string();
  introduction.host = reader.get_string();
  introduction.process.pid = static_cast<pid_t>(reader.get<std::int64_t>());
  introduction.process.start_time = reader.get<std::uint64_t>();
  reader.expect_end();
  return introduction;
}

Introduction introduce(const Config& config) {
  const bool named = !config.hostname.empty();
  const std::string host = named ? config.hostname : host_name();
  return {named ? host : host + " " + boot_id(), host, this_process()};
}

// A place in the world, and the processes of the ranks of this host.
struct Neighbourhood {
  Placement placement;
  std::vector<ProcessId> processes;
};

Neighbourhood meet(MpiLink& link, const Config& config, TimePoint deadline) {
  std::vector<std::string> identities;
  std::vector<std::string> hosts;
  std::vector<ProcessId> processes;
  for (const std::string& text : link.all_gather(encode(introduce(config)), deadline)) {
    const Introduction introduction = decode(text);
    identities.push_back(introduction.identity);
    hosts.push_back(introduction.host);
    processes.push_back(introduction.process);
  }
  Neighbourhood here{place(link.rank(), identities, hosts), {}};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(processes[static_cast<std::size_t>(r)]);
  }
  return here;
}

// Memory that all ranks of this host map; empty if this rank is alone there. Every rank of the
// world calls it. Either all of them succeed or all throw what the first one met.
std::shared_ptr<SharedMemory> share_memory(MpiLink& link, const Placement& placement,
                                           TimePoint deadline) {
  const std::vector<Rank> locals = local_ranks(placement);
  const std::size_t bytes = Mailboxes::bytes_needed(static_cast<int>(locals.size()));
  const bool alone = locals.size() == 1;
  const bool leader = locals.front() == placement.rank;
  std::shared_ptr<SharedMemory> memory;
  std::string failure;
  const auto attempt = [&](auto make) {
    try {
      memory = make();
    } catch (const Error& error) {
      failure = "rank " + std::to_string(placement.rank) + " on host " +
                placement.host_name(placement.rank) + ": " + error.what();
    }
  };
  if (leader && !alone) attempt([&] { return SharedMemory::create(bytes); });
  const auto paths = link.all_gather(memory != nullptr ? memory->path() : "", deadline);
  const std::string& path = paths[static_cast<std::size_t>(locals.front())];
  if (!leader && !path.empty()) attempt([&] { return SharedMemory::open(path, bytes); });
  const auto failures = link.all_gather(failure, deadline);
  if (memory != nullptr) memory->remove_name();
  for (const std::string& text : failures) {
    if (!text.empty()) throw UnsupportedError(text);
  }
  return memory;
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
  return connect_hosts(placement, config.network_interfaces, bell, all_gather, deadline);
}

// `memory`: what the ranks of this host share; empty if this rank is alone there.
std::unique_ptr<ControlPlane> make_control_plane(MpiLink& link, const Neighbourhood& here,
                                                 const Config& config,
                                                 std::shared_ptr<SharedMemory> memory,
                                                 TimePoint deadline) {
  const Placement& placement = here.placement;
  std::unique_ptr<ControlPlane> local;
  if (memory != nullptr) {
    local = std::make_unique<ShmControlPlane>(placement, std::move(memory), here.processes);
  }
  if (placement.hosts() == 1) return local;
  const Doorbell* bell = local != nullptr ? &local->doorbell() : nullptr;
  auto remote = make_remote_plane(link, placement, config, bell, deadline);
  if (local == nullptr) return remote;
  return std::make_unique<HierControlPlane>(std::move(local), std::move(remote));
}

std::unique_ptr<Collective> make_collective(MpiLink& link, const Placement& placement,
                                            const Config& config) {
  const HierOptions options = {.all_reduce = config.hierarchical_allreduce,
                               .all_gather = config.hierarchical_allgather,
                               .rank_order = config.deterministic};
  auto flat = link.make_collective();
  if (!options.all_reduce && !options.all_gather) return flat;
  return HierCollective::make(std::move(flat), nullptr, placement.rank, placement.host_of, options);
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

Ports connect_by_mpi(const LaunchInfo& launch, const Config& config) {
  const MpiLibrary& library = mpi_library(kMpiBuildFolder);
  if (library.module == nullptr) {
    throw UnsupportedError(launch.launcher +
                           " started this process, but MPI cannot be used: " + library.detail);
  }
  const TimePoint deadline = Clock::now() + config.start_timeout;
  const auto link = library.module->connect(deadline, config.mpi_threads_disable);
  expect_world(launch, *link);
  const Neighbourhood here = meet(*link, config, deadline);
  set_log_rank(link->rank());
  library.module->set_log_rank(link->rank());
  auto memory = share_memory(*link, here.placement, deadline);
  Ports ports;
  ports.control = make_control_plane(*link, here, config, std::move(memory), deadline);
  ports.collectives.push_back(make_collective(*link, here.placement, config));
  ports.mpi_threads = link->threads_supported();
  return ports;
}

Ports connect_to_self(const Config& config) {
  Ports ports;
  ports.control = std::make_unique<SelfControlPlane>(introduce(config).host);
  ports.collectives.push_back(std::make_unique<SelfCollective>());
  return ports;
}

}  // namespace

std::vector<BackendInfo> backends() {
  const MpiLibrary& mpi = mpi_library(kMpiBuildFolder);
  return {
      {"self", true, "a world of one rank"},
      {"shm", true, "control messages between the ranks of a host"},
      {"tcp", true, "control messages between hosts"},
      {"mpi", mpi.module != nullptr, mpi.detail},
  };
}

Ports connect(const Config& config) {
  const LaunchInfo launch = read_launch_info();
  if (launch.launcher.empty() || launch.size == 1) return connect_to_self(config);
  if (launch.speaks_mpi) return connect_by_mpi(launch, config);
  throw UnsupportedError(
      launch.launcher + " started this process (" +
      (launch.rank ? "rank " + std::to_string(*launch.rank) : "a rank it does not say") + " of " +
      (launch.size ? std::to_string(*launch.size) : "?") +
      (launch.local_rank ? ", local rank " + std::to_string(*launch.local_rank) : "") +
      "), but without MPI the ranks cannot find each other: " + launch_advice(launch.launcher));
}

}  // namespace hvd
