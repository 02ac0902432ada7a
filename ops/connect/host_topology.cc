#include "ops/connect/host_topology.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/fields.h"
#include "core/base/status.h"
#include "core/system/host.h"
#include "ops/connect/introduction.h"
#include "ops/connect/local_socket.h"
#include "ops/shm/descriptor_message.h"

namespace hvd::engine {
namespace {

// Hosts may share a name, and one machine may have had another life: the boot tells them apart.
// Containers of one machine that have one name are one host: see share_host().
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
  const bool over_tcp = config.cpu_operations == "tcp" && here.placement.hosts() == 1;
  here.shm = config.cpu_operations != "mpi" && !over_tcp && here.local_size() > 1;
  return here;
}

namespace {

constexpr std::int32_t kMemory = -1;  // the message with the memory; the others have a rank's files
constexpr std::chrono::milliseconds kAgain{1};  // until what was not possible is tried again

// What each rank tells all others before anything is handed over.
struct Offer {
  std::string socket;                   // of a host's first rank: where the others find it
  std::string failure;                  // what it could not make
  std::uint64_t network_namespace = 0;  // 0 where /proc does not say
  std::uint64_t pid_namespace = 0;
  bool has_pidfd = false;
  static constexpr auto kFields =
      std::tuple(&Offer::socket, &Offer::failure, &Offer::network_namespace, &Offer::pid_namespace,
                 &Offer::has_pidfd);
};

std::uint64_t namespace_of(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

// Why two ranks of one host cannot share memory, the same on all ranks; empty if they can.
std::string fault_of(const Placement& placement, const std::vector<Offer>& offers, Rank first,
                     Rank other) {
  const Offer& a = offers[static_cast<std::size_t>(first)];
  const Offer& b = offers[static_cast<std::size_t>(other)];
  const std::string who =
      placement.described(first) + " and " + placement.described(other) + " are in different ";
  const bool known = a.network_namespace != 0 && b.network_namespace != 0;
  if (known && a.network_namespace != b.network_namespace) {
    return who +
           "network namespaces, in which they cannot share memory: put them into one (docker run "
           "--network=host, or one pod), or set HOROVOD_HOSTNAME to a name of its own in each";
  }
  if (a.pid_namespace != b.pid_namespace && !(a.has_pidfd && b.has_pidfd)) {
    return who +
           "PID namespaces, and this kernel has no pidfds (Linux 5.3) by which one could see the "
           "other end: put them into one, or set HOROVOD_HOSTNAME to a name of its own in each";
  }
  return "";
}

std::string join(const std::vector<std::string>& failures) {
  std::string text;
  for (const std::string& each : failures) {
    if (!each.empty()) text += (text.empty() ? "" : "; ") + each;
  }
  return text;
}

std::string faults_of(const Placement& placement, const std::vector<Offer>& offers) {
  std::vector<std::string> faults;
  std::vector<std::optional<Rank>> first_of(placement.host_names.size());
  for (Rank rank = 0; rank < placement.size(); ++rank) {
    const std::string& failure = offers[static_cast<std::size_t>(rank)].failure;
    if (!failure.empty()) faults.push_back(placement.described(rank) + ": " + failure);
    auto& first =
        first_of[static_cast<std::size_t>(placement.host_of[static_cast<std::size_t>(rank)])];
    if (!first) {
      first = rank;
    } else {
      faults.push_back(fault_of(placement, offers, *first, rank));
    }
  }
  return join(faults);
}

// One rank's side of the exchange among those of its host.
class Exchange {
 public:
  Exchange(const Placement& placement, std::size_t ranks)
      : placement_(placement), locals_(local_ranks(placement)), files_(ranks) {
    const auto mine = std::find(locals_.begin(), locals_.end(), placement.rank);
    place_ = static_cast<std::size_t>(mine - locals_.begin());
  }

  bool leads() const { return place_ == 0; }

  // Makes what this rank has to give.
  Offer prepare(const DataSegment::Needs& needs) {
    Offer offer;
    offer.network_namespace = namespace_of("/proc/thread-self/ns/net");
    offer.pid_namespace = namespace_of("/proc/thread-self/ns/pid");
    try {
      files_[place_].push_back(make_memory_file());
      UniqueFd pidfd = open_own_pidfd();
      offer.has_pidfd = static_cast<bool>(pidfd);
      if (pidfd) files_[place_].push_back(std::move(pidfd));
      if (!leads()) return offer;
      memory_ = SharedMemory::create(needs.bytes, needs.reserved);
      offer.socket = "hvd-memory-" + random_hex(32);
      listener_ = listen_locally(offer.socket);
    } catch (const Error& error) {
      offer.failure = error.what();
    }
    return offer;
  }

  // The first rank collects the files of all and hands them out with its memory.
  void serve(TimePoint deadline) {
    std::vector<UniqueFd> guests(locals_.size());  // by rank of the host
    std::vector<UniqueFd> unknown;                 // have not said which rank they are
    while (std::count_if(guests.begin() + 1, guests.end(), [](const UniqueFd& g) { return !g; })) {
      std::vector<pollfd> events = {{listener_.get(), POLLIN, 0}};
      for (const UniqueFd& peer : unknown) events.push_back({peer.get(), POLLIN, 0});
      if (!wait_for(events, deadline)) throw StalledError(who_is_missing(guests));
      std::erase_if(unknown, [&](UniqueFd& peer) { return introduce(peer, guests); });
      if (events[0].revents != 0) accept(unknown);
    }
    for (std::size_t to = 1; to < guests.size(); ++to) hand_out(to, guests[to], deadline);
  }

  void fetch(const std::string& socket, std::size_t bytes, TimePoint deadline) {
    const UniqueFd leader = connect(socket, deadline);
    send(leader, static_cast<std::int32_t>(place_), files_[place_], deadline);
    // Of the other ranks, and then the memory.
    for (std::size_t left = locals_.size(); left > 0; --left) {
      DescriptorMessage message = receive(leader, deadline);
      const bool is_memory = message.number == kMemory;
      const auto from = static_cast<std::size_t>(is_memory ? 0 : message.number);
      if (from >= files_.size() || message.descriptors.empty()) {
        throw PeerLostError(str_cat("rank ", locals_[0], " sent an invalid message"));
      }
      if (is_memory) {
        memory_ = SharedMemory::open(std::move(message.descriptors[0]), bytes);
      } else {
        files_[from] = std::move(message.descriptors);
      }
    }
  }

  HostSharing result(const std::vector<ProcessId>& processes) {
    HostSharing host;
    host.memory = std::move(memory_);
    for (std::size_t rank = 0; rank < files_.size(); ++rank) {
      auto& files = files_[rank];
      files.resize(2);  // no pidfd: an empty one
      host.arena_files.push_back(std::move(files[0]));
      host.processes.emplace_back(processes[rank], std::move(files[1]));
    }
    return host;
  }

 private:
  std::string who_is_missing(const std::vector<UniqueFd>& guests) const {
    std::string text;
    for (std::size_t rank = 1; rank < guests.size(); ++rank) {
      if (!guests[rank]) text += (text.empty() ? "" : ", ") + placement_.described(locals_[rank]);
    }
    return "did not fetch the shared memory in time: " + text;
  }

  void accept(std::vector<UniqueFd>& unknown) {
    errno = 0;
    if (UniqueFd client = accept_locally(listener_)) {
      unknown.push_back(std::move(client));
    } else if (errno == EMFILE || errno == ENFILE) {
      throw UnsupportedError(
          "cannot hand out shared memory: this process may not open that many files (ulimit -n)");
    }
  }

  // True once it has said which rank it is, or was turned away.
  bool introduce(UniqueFd& peer, std::vector<UniqueFd>& guests) {
    try {
      auto message = receive_descriptors(peer);
      if (!message) return false;
      const auto rank = static_cast<std::size_t>(message->number);
      if (rank == 0 || rank >= guests.size() || guests[rank]) return true;
      if (message->descriptors.empty() || message->descriptors.size() > 2) return true;
      files_[rank] = std::move(message->descriptors);
      guests[rank] = std::move(peer);
    } catch (const PeerLostError&) {
      // A program that was none of our ranks; or one of them, which says why.
    }
    return true;
  }

  void hand_out(std::size_t to, const UniqueFd& client, TimePoint deadline) const {
    for (std::size_t rank = 0; rank < files_.size(); ++rank) {
      if (rank != to) send(client, static_cast<std::int32_t>(rank), files_[rank], deadline);
    }
    send(client, kMemory, {&memory_->fd(), 1}, deadline);
  }

  UniqueFd connect(const std::string& socket, TimePoint deadline) const {
    std::string why;
    while (true) {
      if (UniqueFd leader = connect_locally(socket, why)) return leader;
      before_next_attempt(deadline, "cannot fetch the shared memory of " +
                                        placement_.described(locals_[0]) + ": " + why);
    }
  }

  void send(const UniqueFd& socket, std::int32_t number, std::span<const UniqueFd> files,
            TimePoint deadline) const {
    std::vector<int> descriptors;
    for (const UniqueFd& file : files) descriptors.push_back(file.get());
    while (!send_descriptors(socket, number, descriptors)) {
      before_next_attempt(deadline, "no rank took the shared memory in time");
    }
  }

  static void before_next_attempt(TimePoint deadline, const std::string& failure) {
    if (Clock::now() >= deadline) throw StalledError(failure);
    wait_for({}, std::min(deadline, Clock::now() + kAgain));
  }

  DescriptorMessage receive(const UniqueFd& socket, TimePoint deadline) const {
    while (true) {
      if (auto message = receive_descriptors(socket)) return std::move(*message);
      pollfd ready = {socket.get(), POLLIN, 0};
      if (!wait_for({&ready, 1}, deadline)) {
        throw StalledError(placement_.described(locals_[0]) +
                           " did not hand over the shared memory in time");
      }
    }
  }

  const Placement& placement_;
  const std::vector<Rank> locals_;
  std::size_t place_ = 0;                     // among them
  std::vector<std::vector<UniqueFd>> files_;  // by rank of the host: for arenas, and its pidfd
  std::shared_ptr<SharedMemory> memory_;
  UniqueFd listener_;
};

}  // namespace

HostSharing share_host(Rendezvous& others, const HostTopology& here,
                       const DataSegment::Needs& needs, TimePoint deadline) {
  const auto& [placement, processes, shm] = here;
  const bool alone = processes.size() == 1;
  Exchange exchange(placement, processes.size());
  std::vector<Offer> offers;
  const std::string mine = to_text(encode_fields(alone ? Offer() : exchange.prepare(needs)));
  for (const std::string& text : others.all_gather(mine, deadline)) {
    offers.push_back(decode_fields<Offer>(to_bytes(text)));
  }
  const std::string faults = faults_of(placement, offers);
  if (!faults.empty()) throw UnsupportedError(faults);
  std::string failure;
  // The rest of the time is for telling all ranks what happened.
  const TimePoint half = Clock::now() + (deadline - Clock::now()) / 2;
  try {
    const auto first = static_cast<std::size_t>(local_ranks(placement).front());
    if (!alone && exchange.leads()) exchange.serve(half);
    if (!alone && !exchange.leads()) exchange.fetch(offers[first].socket, needs.bytes, half);
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  const std::string failures = join(others.all_gather(failure, deadline));
  if (!failures.empty()) throw UnsupportedError(failures);
  return alone ? HostSharing() : exchange.result(processes);
}

}  // namespace hvd::engine
