#include "core/ports/rendezvous.h"

#include <map>

namespace hvd::engine {

Placement place(Rank rank, std::span<const std::string> identities,
                std::span<const std::string> names) {
  Placement placement{rank, {}, {}};
  std::map<std::string, int> number_of;
  for (std::size_t r = 0; r < identities.size(); ++r) {
    const auto [host, is_new] = number_of.emplace(identities[r], placement.hosts());
    if (is_new) placement.host_names.push_back(names[r]);
    placement.host_of.push_back(host->second);
  }
  return placement;
}

Topology topology_of(const Placement& placement) {
  const int my_host = placement.host_of[static_cast<std::size_t>(placement.rank)];
  std::vector<int> ranks_on(static_cast<std::size_t>(placement.hosts()), 0);
  Topology topology{placement.rank, placement.size(), 0, 0, 0, 0};
  for (Rank r = 0; r < placement.size(); ++r) {
    const int host = placement.host_of[static_cast<std::size_t>(r)];
    if (host == my_host && r < placement.rank) ++topology.local_rank;
    ++ranks_on[static_cast<std::size_t>(host)];
  }
  topology.local_size = ranks_on[static_cast<std::size_t>(my_host)];
  for (int host = 0; host < placement.hosts(); ++host) {
    if (ranks_on[static_cast<std::size_t>(host)] <= topology.local_rank) continue;
    if (host < my_host) ++topology.cross_rank;
    ++topology.cross_size;
  }
  return topology;
}

std::vector<Rank> local_ranks(const Placement& placement) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < placement.size(); ++r) {
    if (placement.is_local(r)) ranks.push_back(r);
  }
  return ranks;
}

namespace {

constexpr unsigned kStatusCodes = static_cast<unsigned>(StatusCode::kInternal) + 1;

}  // namespace

Bytes encode_gathered(std::span<const std::string> texts) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(StatusCode::kOk);
  for (const std::string& text : texts) writer.put_string(text);
  return bytes;
}

Bytes encode_gather_failure(const Status& why) {
  Bytes bytes;
  bytes.reserve(why.message().size() + 8);
  ByteWriter writer(bytes);
  writer.put(why.code());
  writer.put_string(why.message());
  return bytes;
}

std::vector<std::string> decode_gathered(std::span<const std::byte> answer, int size) {
  ByteReader reader(answer);
  const auto code = reader.get_enum<StatusCode>(kStatusCodes);
  std::vector<std::string> texts;
  if (code != StatusCode::kOk) Status(code, reader.get_string()).throw_if_error();
  for (int r = 0; r < size; ++r) texts.push_back(reader.get_string());
  reader.expect_end();
  return texts;
}

std::string list_of_missing(const std::vector<bool>& here) {
  constexpr std::size_t kNamed = 32;  // a size that was mistyped may be large
  std::string ranks;
  std::size_t missing = 0;
  for (std::size_t r = 0; r < here.size(); ++r) {
    if (here[r] || ++missing > kNamed) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  if (missing > kNamed) ranks += " and " + std::to_string(missing - kNamed) + " more";
  return ranks;
}

Status missing_ranks(const std::vector<bool>& here) {
  return {StatusCode::kStalled,
          "rank(s) " + list_of_missing(here) +
              " did not connect before the start timeout (HOROVOD_START_TIMEOUT)"};
}

Status missing_answer() {
  return {StatusCode::kStalled,
          "rank 0 did not answer before the start timeout (HOROVOD_START_TIMEOUT)"};
}

Status interrupted_meeting() {
  return {StatusCode::kAborted, "rank 0 was interrupted while it waited for the other ranks"};
}

}  // namespace hvd::engine
