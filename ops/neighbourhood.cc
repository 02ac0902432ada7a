#include "ops/neighbourhood.h"

#include <cstdint>
#include <span>

#include "core/base/bytes.h"
#include "core/base/host.h"
#include "ops/gpu_claims.h"

namespace hvd {
namespace {

// What each rank tells the others when they meet.
struct Introduction {
  std::string identity;
  std::string host;
  ProcessId process;
  bool shm = false;            // it wants its tensors to move through shared memory
  std::string gpu_operations;  // and those of GPUs like this
};

std::string encode(const Introduction& introduction) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_string(introduction.identity);
  writer.put_string(introduction.host);
  writer.put(static_cast<std::int64_t>(introduction.process.pid));
  writer.put(introduction.process.start_time);
  writer.put(static_cast<std::uint8_t>(introduction.shm));
  writer.put_string(introduction.gpu_operations);
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
  introduction.gpu_operations = reader.get_string();
  reader.expect_end();
  return introduction;
}

Introduction introduce(const Config& config) {
  // Hosts may share a name, and one machine may have had another life: the boot tells them apart.
  const std::string host = name_of_host(config);
  return {config.hostname.empty() ? host + " " + boot_id() : host, host, this_process(),
          config.cpu_operations != "mpi", config.gpu_operations};
}

}  // namespace

std::string name_of_host(const Config& config) {
  return config.hostname.empty() ? host_name() : config.hostname;
}

Neighbourhood meet(Rendezvous& others, const Config& config, TimePoint deadline) {
  std::vector<std::string> identities;
  std::vector<std::string> hosts;
  std::vector<ProcessId> processes;
  std::vector<std::string> gpu_operations;
  bool shm = true;
  for (const std::string& text : others.all_gather(encode(introduce(config)), deadline)) {
    const Introduction introduction = decode(text);
    identities.push_back(introduction.identity);
    hosts.push_back(introduction.host);
    processes.push_back(introduction.process);
    shm = shm && introduction.shm;
    gpu_operations.push_back(introduction.gpu_operations);
  }
  Neighbourhood here{place(others.rank(), identities, hosts), {}};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(processes[static_cast<std::size_t>(r)]);
  }
  here.shm = shm && here.local_size() > 1;
  here.gpu_operations = agree_on_gpu_operations(gpu_operations);
  return here;
}

}  // namespace hvd
