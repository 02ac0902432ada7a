#include "test/support/protocol_program_random.h"

#include <algorithm>

namespace hvd::engine::test {
namespace {

bool once_in(unsigned n, std::mt19937& random) {
  return random() % n == 0;
}

Request random_request(const std::string& name, const std::vector<Rank>& ranks,
                       std::mt19937& random) {
  Request request;
  request.name = name;
  request.kind = static_cast<CollectiveKind>(random() % 9);
  request.root = needs_root(request.kind) ? pick(ranks, random) : 0;
  request.automatic_name = once_in(4, random);
  request.prescale = pick<double>({1, 1, 0.5}, random);
  const auto tensors = once_in(3, random) ? 1 + random() % 3 : 1;
  for (unsigned i = 0; i < tensors; ++i)
    request.shapes.push_back({pick<std::int64_t>({1, 2}, random)});
  return request;
}

// What a rank asks for that does not ask for the same as the others.
Request deviating(Request request, std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      request.dtype = DType::kF64;
      break;
    case 1:
      request.shapes.push_back({1});
      break;
    case 2:
      request.postscale = 2;
      break;
    default:
      request.shapes[0] = {3, 3};
  }
  return request;
}

// Whose tensors lie in an arena, and where: mostly at one place on all ranks.
void place(Request& request, std::uint64_t offset) {
  if (request.kind != CollectiveKind::kAllreduce) return;
  request.place.arena = 1;
  request.place.offsets.assign(request.shapes.size(), offset);
}

// How many steps each rank's data lasts, where ranks join. All ranks do the same in one step, so
// who lasts shorter never waits for something that who lasts longer does not submit.
using Lengths = std::vector<unsigned>;

constexpr unsigned kMostSteps = 3;

struct Member {
  unsigned steps;
  Epoch* epoch;
};

void add_name(const std::string& name, const std::vector<Member>& members,
              const std::vector<Rank>& ranks, std::mt19937& random) {
  Request request = random_request(name, ranks, random);
  for (unsigned step = 0; step < kMostSteps; ++step) {
    if (once_in(3, random)) continue;
    if (once_in(3, random)) request = random_request(name, ranks, random);
    if (once_in(2, random)) place(request, 64 * (random() % 2));
    for (const Member& member : members) {
      if (step >= member.steps) continue;
      Request mine = once_in(25, random) ? deviating(request, random) : request;
      mine.place = {};
      if (request.place.arena != 0 && !once_in(5, random)) {
        place(mine, request.place.offsets[0] + 64 * (once_in(5, random) ? 1 : 0));
      }
      mine.flagged = mine.kind == CollectiveKind::kAllreduce && once_in(6, random);
      member.epoch->names[name].push_back(std::move(mine));
    }
  }
}

// Returns how long the ranks last in each epoch.
std::vector<Lengths> add_epochs(Program& program, const std::string& label,
                                const std::vector<Rank>& ranks, std::mt19937& random) {
  const auto epochs = 1 + random() % 3;
  const bool last_joins = once_in(4, random);
  std::vector<Lengths> lengths(epochs);
  for (const Rank r : ranks) program.ranks[static_cast<std::size_t>(r)][label].resize(epochs);
  for (unsigned e = 0; e < epochs; ++e) {
    std::vector<Member> members;
    for (const Rank r : ranks) {
      Epoch& epoch = program.ranks[static_cast<std::size_t>(r)][label][e];
      epoch.joins = e + 1 < epochs || last_joins;
      epoch.joins_average = once_in(3, random);
      lengths[e].push_back(epoch.joins ? pick<unsigned>({0, 1, 2, 3}, random) : kMostSteps);
      members.push_back({lengths[e].back(), &epoch});
    }
    const auto names = 1 + random() % 3;
    for (unsigned n = 0; n < names; ++n) {
      add_name(label + "abc"[n], members, ranks, random);
    }
  }
  return lengths;
}

// Whose data lasts for as many steps at least asks for it; others join instead.
void ask(Program& program, std::size_t epoch, const Request& request, const Lengths& lengths,
         unsigned steps) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    if (lengths[r] < steps) continue;
    program.ranks[r][""][epoch].names[request.name] = {request};
  }
}

std::vector<Rank> random_ranks(int size, std::mt19937& random) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < size; ++r) {
    if (once_in(2, random)) ranks.push_back(r);
  }
  if (ranks.empty()) ranks.push_back(static_cast<Rank>(random() % static_cast<unsigned>(size)));
  return ranks;
}

// No set: the definitions differ.
void add_disagreement(Program& program, std::mt19937& random) {
  const std::size_t other = random() % program.ranks.size();
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const std::vector<Rank> ranks = r == other ? std::vector<Rank>{0} : std::vector<Rank>{0, 1};
    program.ranks[r][""].back().names["add nothing"] = {add_set("nothing", ranks)};
  }
}

}  // namespace

std::vector<Rank> random_parents(std::mt19937& random) {
  std::vector<Rank> parents = {0};
  const auto size = 2 + random() % 6;
  while (parents.size() < size) {
    parents.push_back(static_cast<Rank>(random() % parents.size()));
  }
  return parents;
}

Program random_program(int size, std::mt19937& random) {
  Program program;
  program.ranks.resize(static_cast<std::size_t>(size));
  std::vector<Rank> all;
  for (Rank r = 0; r < size; ++r) all.push_back(r);
  const std::vector<Lengths> lengths = add_epochs(program, "", all, random);
  for (const char label : std::string("ABC").substr(0, random() % 4)) {
    const std::vector<Rank> ranks = random_ranks(size, random);
    const std::string name(1, label);
    add_epochs(program, name, ranks, random);
    const std::size_t first = random() % lengths.size();
    const auto steps = [&](std::size_t epoch) {
      return pick<unsigned>({0, *std::max_element(lengths[epoch].begin(), lengths[epoch].end())},
                            random);
    };
    const unsigned added = steps(first);
    ask(program, first, add_set(name, ranks), lengths[first], added);
    if (once_in(2, random)) continue;
    const std::size_t last = first + random() % (lengths.size() - first);
    ask(program, last, remove_set(name), lengths[last],
        last == first ? std::max(added, steps(last)) : steps(last));
  }
  if (once_in(5, random)) add_disagreement(program, random);
  return program;
}

NegotiationSettings random_settings(std::mt19937& random) {
  NegotiationSettings settings;
  settings.cache_capacity = pick<std::size_t>({0, 1, 2, 3, 8}, random);
  settings.fusion_threshold = pick<std::size_t>({0, 512, 1 << 20}, random);
  settings.batches_in_flight = pick<int>({1, 2, 4}, random);
  settings.batching_gap = std::chrono::milliseconds(random() % 3);
  settings.stall_warning = std::chrono::milliseconds(pick<int>({12, 50}, random));
  settings.stall_limit = Duration::zero();
  settings.deterministic = once_in(4, random);
  settings.eager_bytes = pick<std::size_t>({0, 8, 1 << 10}, random);
  return settings;
}

}  // namespace hvd::engine::test
