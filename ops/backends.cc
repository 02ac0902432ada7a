#include "ops/backends.h"

#include <algorithm>

#include "core/base/host.h"
#include "core/base/launch_info.h"
#include "core/base/log.h"
#include "core/base/placement.h"
#include "ops/hier/hier_control_plane.h"
#include "ops/mpi_library.h"
#include "ops/nccl_library.h"
#include "ops/rendezvous/meeting.h"
#include "ops/self/self_collective.h"
#include "ops/self/self_control_plane.h"
#include "ops/shm/process.h"
#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"
#include "ops/tcp/connect_hosts.h"

namespace hvd {
namespace {

#ifdef HVD_WITH_MPI
constexpr const char* kMpiBuildFolder = HVD_WITH_MPI;
#else
constexpr const char* kMpiBuildFolder = "";
#endif

#ifdef HVD_WITH_NCCL
constexpr const char* kNcclBuildFolder = HVD_WITH_NCCL;
#else
constexpr const char* kNcclBuildFolder = "";
#endif

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
  // Hosts may share a name, and one machine may have had another life: the boot tells them apart.
  const bool named = !config.hostname.empty();
  const std::string host = named ? config.hostname : host_name();
  return {named ? host : host + " " + boot_id(), host, this_process()};
}

// A place in the world, and the processes of the ranks of this host.
struct Neighbourhood {
  Placement placement;
  std::vector<ProcessId> processes;
};

Neighbourhood meet(Rendezvous& others, const Config& config, TimePoint deadline) {
  std::vector<std::string> identities;
  std::vector<std::string> hosts;
  std::vector<ProcessId> processes;
  for (const std::string& text : others.all_gather(encode(introduce(config)), deadline)) {
    const Introduction introduction = decode(text);
    identities.push_back(introduction.identity);
    hosts.push_back(introduction.host);
    processes.push_back(introduction.process);
  }
  Neighbourhood here{place(others.rank(), identities, hosts), {}};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(processes[static_cast<std::size_t>(r)]);
  }
  return here;
}

// Memory that all ranks of this host map; empty if this rank is alone there. Every rank of the
// world calls it. Either all of them succeed or all throw what the first one met.
std::shared_ptr<SharedMemory> share_memory(Rendezvous& others, const Placement& placement,
                                           const DataSegment::Needs& needs, TimePoint deadline) {
  const std::vector<Rank> locals = local_ranks(placement);
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
  if (leader && !alone) attempt([&] { return SharedMemory::create(needs.bytes, needs.reserved); });
  const auto paths = others.all_gather(memory != nullptr ? memory->path() : "", deadline);
  const std::string& path = paths[static_cast<std::size_t>(locals.front())];
  if (!leader && !path.empty()) attempt([&] { return SharedMemory::open(path, needs.bytes); });
  const auto failures = others.all_gather(failure, deadline);
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
  if (config.controller == "mpi") {
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
  const std::size_t bytes = Mailboxes::bytes_needed(static_cast<int>(here.processes.size()));
  auto memory = share_memory(*link, here.placement, {bytes, bytes}, deadline);
  Ports ports;
  ports.control = make_control_plane(*link, here, config, std::move(memory), deadline);
  ports.collectives.push_back(link->make_collective());
  ports.mpi_threads = link->threads_supported();
  return ports;
}

// The segment of a host whose ranks need nothing else: mailboxes, then what tensors move through.
std::size_t tensors_begin(int ranks) {
  const std::size_t page = DataSegment::kAlignment;
  return (Mailboxes::bytes_needed(ranks) + page - 1) / page * page;
}

std::unique_ptr<Collective> make_shm_collective(const Placement& placement,
                                                const std::shared_ptr<SharedMemory>& memory) {
  const Mailboxes mailboxes(memory, placement.size());
  std::vector<DoorbellState*> bells;
  for (Rank r = 0; r < placement.size(); ++r) bells.push_back(&mailboxes.slot(r).bell);
  return std::make_unique<ShmCollective>(
      std::make_unique<DataSegment>(memory, tensors_begin(placement.size()), placement.size(),
                                    placement.rank, ShmLimits{}, std::move(bells)));
}

// All ranks are on this machine, and MPI is not asked.
Ports connect_by_rendezvous(const LaunchInfo& launch, const Meeting& meeting,
                            const Config& config) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  const auto others = attend(meeting, deadline);
  const Neighbourhood here = meet(*others, config, deadline);
  if (here.placement.hosts() > 1) {
    throw UnsupportedError(launch.launcher + " started ranks on " +
                           std::to_string(here.placement.hosts()) + " hosts (" +
                           here.placement.host_names[0] + ", " + here.placement.host_names[1] +
                           (here.placement.hosts() > 2 ? ", ..." : "") +
                           "): without MPI all have to be on one; for several start the job with "
                           "hvdrun -H host:slots,...");
  }
  set_log_rank(others->rank());
  DataSegment::Needs needs = DataSegment::needs(others->size(), ShmLimits{});
  needs.bytes += tensors_begin(others->size());
  needs.reserved += tensors_begin(others->size());
  auto memory = share_memory(*others, here.placement, needs, deadline);
  Ports ports;
  ports.collectives.push_back(make_shm_collective(here.placement, memory));
  ports.control =
      std::make_unique<ShmControlPlane>(here.placement, std::move(memory), here.processes);
  return ports;
}

// Nothing if MPI has to connect the ranks: because they want it, or because only it can.
std::optional<Meeting> meeting_without_mpi(const LaunchInfo& launch, const Config& config) {
  if (config.controller == "mpi") {
    if (launch.speaks_mpi) return std::nullopt;
    throw UnsupportedError("HOROVOD_CONTROLLER=mpi, but " + launch.launcher +
                           " started this process without MPI: use mpirun or hvdrun --mpi, or "
                           "leave HOROVOD_CONTROLLER alone");
  }
  if (!launch.speaks_mpi) return find_meeting(launch, config.rendezvous);
  if (config.controller != "gloo") return std::nullopt;
  if (!config.rendezvous.empty()) return find_meeting(launch, config.rendezvous);
  if (launch.rank == 0) {
    log(LogLevel::kWarning,
        "HOROVOD_CONTROLLER=gloo: MPI started this job and connects its ranks; without it they "
        "meet where HVD_RENDEZVOUS says, or if hvdrun --gloo starts them");
  }
  return std::nullopt;
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
  std::vector<BackendInfo> rows = {
      {"self", true, "a world of one rank"},
      {"shm", true, "the ranks of a host, with MPI or without"},
      {"tcp", true, "control messages between hosts"},
      {"mpi", mpi.module != nullptr, mpi.detail},
  };
  const NcclLibrary& nccl = nccl_library(kNcclBuildFolder);
  if (nccl.module == nullptr) {
    rows.push_back({"cuda", false, nccl.detail});
    rows.push_back({"nccl", false, nccl.detail});
    return rows;
  }
  const bool has_device = nccl.module->devices() > 0;
  rows.push_back(
      {"cuda", has_device, nccl.module->cuda_version() + ": " + nccl.module->describe_devices()});
  rows.push_back({"nccl", has_device,
                  nccl.module->version() + (has_device ? "" : ", without a device") + " (" +
                      nccl.detail + ")"});
  return rows;
}

Ports connect(const Config& config) {
  const LaunchInfo launch = read_launch_info();
  if (launch.launcher.empty() || launch.size == 1) return connect_to_self(config);
  if (const auto meeting = meeting_without_mpi(launch, config)) {
    return connect_by_rendezvous(launch, *meeting, config);
  }
  if (launch.speaks_mpi) return connect_by_mpi(launch, config);
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
