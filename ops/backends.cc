#include "ops/backends.h"

#include <unistd.h>

#include <climits>
#include <fstream>

#include "core/base/launch_info.h"
#include "core/base/log.h"
#include "core/base/placement.h"
#include "ops/hier/hier_control_plane.h"
#include "ops/mpi_library.h"
#include "ops/self/self_collective.h"
#include "ops/self/self_control_plane.h"
#include "ops/shm/process.h"
#include "ops/shm/shm_collective.h"
#include "ops/shm/shm_control_plane.h"

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
  bool shm = false;  // it wants its tensors to move through shared memory
};

std::string encode(const Introduction& introduction) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_string(introduction.identity);
  writer.put_string(introduction.host);
  writer.put(static_cast<std::int64_t>(introduction.process.pid));
  writer.put(introduction.process.start_time);
  writer.put(static_cast<std::uint8_t>(introduction.shm));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Introduction decode(const std::string& text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  Introduction introduction;
  introduction.identity = reader.get_string();
  introduction.host = reader.get_string();
  introduction.process.pid = static_cast<pid_t>(reader.get<std::int64_t>());
  introduction.process.start_time = reader.get<std::uint64_t>();
  introduction.shm = reader.get_flag();
  reader.expect_end();
  return introduction;
}

Introduction introduce(const Config& config) {
  const bool named = !config.hostname.empty();
  const std::string host = named ? config.hostname : host_name();
  return {named ? host : host + " " + boot_id(), host, this_process(),
          config.cpu_operations != "mpi"};
}

// A place in the world, and the processes of the ranks of this host.
struct Neighbourhood {
  Placement placement;
  std::vector<ProcessId> processes;
  bool shm = true;  // tensors move through shared memory: all ranks are here and want it

  int local_size() const { return static_cast<int>(processes.size()); }
};

Neighbourhood meet(MpiLink& link, const Config& config, TimePoint deadline) {
  std::vector<std::string> identities;
  std::vector<std::string> hosts;
  std::vector<ProcessId> processes;
  bool shm = true;
  for (const std::string& text : link.all_gather(encode(introduce(config)), deadline)) {
    const Introduction introduction = decode(text);
    identities.push_back(introduction.identity);
    hosts.push_back(introduction.host);
    processes.push_back(introduction.process);
    shm = shm && introduction.shm;
  }
  Neighbourhood here{place(link.rank(), identities, hosts), {}};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(processes[static_cast<std::size_t>(r)]);
  }
  here.shm = shm && here.local_size() > 1 && here.local_size() == here.placement.size();
  return here;
}

// What the ranks of this host share: mailboxes and, behind them, what tensors move through.
std::size_t data_offset(const Neighbourhood& here) {
  const std::size_t mailboxes = Mailboxes::bytes_needed(here.local_size());
  return (mailboxes + DataSegment::kAlignment - 1) / DataSegment::kAlignment *
         DataSegment::kAlignment;
}

DataSegment::Needs memory_needs(const Neighbourhood& here) {
  if (!here.shm) {
    const std::size_t mailboxes = Mailboxes::bytes_needed(here.local_size());
    return {mailboxes, mailboxes};
  }
  const DataSegment::Needs data = DataSegment::needs(here.local_size(), {});
  return {data_offset(here) + data.bytes, data_offset(here) + data.reserved};
}

// Memory that all ranks of this host map; empty if this rank is alone there. Every rank of the
// world calls it. Either all of them succeed or all throw what the first one met.
std::shared_ptr<SharedMemory> share_memory(MpiLink& link, const Neighbourhood& here,
                                           TimePoint deadline) {
  const Placement& placement = here.placement;
  const std::vector<Rank> locals = local_ranks(placement);
  const auto [bytes, reserved] = memory_needs(here);
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
  if (leader && !alone) attempt([&] { return SharedMemory::create(bytes, reserved); });
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

std::unique_ptr<ControlPlane> make_control_plane(MpiLink& link, const Neighbourhood& here,
                                                 std::shared_ptr<SharedMemory> memory) {
  std::vector<Rank> remote;
  const std::vector<int>& host_of = here.placement.host_of;
  for (Rank r = 0; r < here.placement.size(); ++r) {
    const int my_host = host_of[static_cast<std::size_t>(here.placement.rank)];
    if (host_of[static_cast<std::size_t>(r)] != my_host) remote.push_back(r);
  }
  std::unique_ptr<ControlPlane> local;
  if (memory != nullptr) {
    local = std::make_unique<ShmControlPlane>(here.placement, std::move(memory), here.processes);
  }
  return std::make_unique<HierControlPlane>(
      std::move(local), link.make_control_plane(here.placement, std::move(remote)));
}

std::unique_ptr<Collective> make_shm_collective(const Neighbourhood& here,
                                                std::shared_ptr<SharedMemory> memory) {
  const int ranks = here.local_size();
  const Mailboxes mailboxes(memory, ranks);
  std::vector<DoorbellState*> bells;
  for (int r = 0; r < ranks; ++r) bells.push_back(&mailboxes.slot(r).bell);
  return std::make_unique<ShmCollective>(
      std::make_unique<DataSegment>(std::move(memory), data_offset(here), ranks,
                                    here.placement.rank, ShmLimits{}, std::move(bells)));
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
  auto memory = share_memory(*link, here, deadline);
  Ports ports;
  ports.control = make_control_plane(*link, here, memory);
  ports.collectives.push_back(here.shm ? make_shm_collective(here, std::move(memory))
                                       : link->make_collective());
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
      {"shm", true, "messages between the ranks of a host; tensors where all ranks are on one"},
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
