#include "ops/connect/host_topology.h"

#include "core/system/host.h"
#include "ops/connect/introduction.h"

namespace hvd {
namespace {

// Hosts may share a name, and one machine may have had another life: the boot tells them apart.
// Containers of one machine that have one name are one host: see host_sharing.h.
Introduction introduce(const Config& config, std::span<const Term> terms) {
  Introduction mine;
  mine.build = build_and_layout();
  mine.host = name_of_host(config);
  mine.identity = config.hostname.empty() ? mine.host + " " + boot_id() : mine.host;
  mine.process = this_process();
  mine.chosen = chosen_values(terms);
  return mine;
}

}  // namespace

std::string name_of_host(const Config& config) {
  return config.hostname.empty() ? host_name() : config.hostname;
}

HostTopology meet(Rendezvous& others, Config& config, std::span<const Term> arguments,
                  TimePoint deadline) {
  std::vector<Term> terms = terms_of(config);
  terms.insert(terms.end(), arguments.begin(), arguments.end());
  const std::vector<Introduction> ranks =
      decode_introductions(others.all_gather(encode(introduce(config, terms)), deadline));
  std::vector<ChosenValues> chosen;
  std::vector<std::string> identities;
  std::vector<std::string> hosts;
  for (const Introduction& rank : ranks) {
    chosen.push_back(rank.chosen);
    identities.push_back(rank.identity);
    hosts.push_back(rank.host);
  }
  expect_agreement(terms, chosen);
  adopt(config, others.rank(), terms, chosen);
  HostTopology here{place(others.rank(), identities, hosts), {}};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(ranks[static_cast<std::size_t>(r)].process);
  }
  here.shm = config.cpu_operations != "mpi" && here.local_size() > 1;
  return here;
}

}  // namespace hvd
