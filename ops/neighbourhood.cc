#include "ops/neighbourhood.h"

#include <map>

#include "core/base/host.h"
#include "ops/introduction.h"

namespace hvd {
namespace {

// Hosts may share a name, and one machine may have had another life: the boot tells them apart.
// Ranks of one machine that do not share process numbers, because they are in containers, cannot
// see each other end, and take each other's processes for others: they are on two hosts.
Introduction introduce(const Config& config, std::span<const Term> terms) {
  Introduction mine;
  mine.build = build_and_layout();
  mine.host = name_of_host(config);
  mine.machine = config.hostname.empty() ? mine.host + " " + boot_id() : mine.host;
  mine.pid_namespace = pid_namespace();
  mine.process = this_process();
  mine.chosen = chosen_values(terms);
  return mine;
}

std::string find_divided(std::span<const Introduction> ranks) {
  std::map<std::string, std::size_t> first_on;  // rank by machine
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::size_t first = first_on.emplace(ranks[rank].machine, rank).first->second;
    if (ranks[first].pid_namespace == ranks[rank].pid_namespace) continue;
    return "ranks " + std::to_string(first) + " and " + std::to_string(rank) + " on host " +
           ranks[rank].host + " are in different PID namespaces (" + ranks[first].pid_namespace +
           " and " + ranks[rank].pid_namespace + "): in containers, say";
  }
  return "";
}

}  // namespace

std::string name_of_host(const Config& config) {
  return config.hostname.empty() ? host_name() : config.hostname;
}

Neighbourhood meet(Rendezvous& others, Config& config, std::span<const Term> arguments,
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
    identities.push_back(rank.machine + " " + rank.pid_namespace);
    hosts.push_back(rank.host);
  }
  expect_agreement(terms, chosen);
  adopt(config, others.rank(), terms, chosen);
  Neighbourhood here{place(others.rank(), identities, hosts), {}, {}, find_divided(ranks)};
  for (const Rank r : local_ranks(here.placement)) {
    here.processes.push_back(ranks[static_cast<std::size_t>(r)].process);
  }
  here.shm = config.cpu_operations != "mpi" && here.local_size() > 1;
  return here;
}

}  // namespace hvd
