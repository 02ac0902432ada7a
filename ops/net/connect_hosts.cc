#include "ops/net/connect_hosts.h"

#include <optional>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/topology.h"

namespace hvd {
namespace {

std::string as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What each rank says first: that it failed and why, or where its door is. Rank 0's key counts.
std::string encode(const std::string& failure, const TcpEndpoint& endpoint, const JobKey& key) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_string(failure);
  put_endpoint(out, endpoint);
  for (const std::byte each : key) out.put(each);
  return as_text(bytes);
}

struct Others {
  std::vector<TcpEndpoint> endpoints;
  JobKey key{};
};

Others read_others(const std::vector<std::string>& texts) {
  Others others;
  for (const std::string& text : texts) {
    ByteReader in(std::as_bytes(std::span(text)));
    const std::string failure = in.get_string();
    if (!failure.empty()) throw UnsupportedError(failure);
    others.endpoints.push_back(get_endpoint(in));
    const bool is_rank_0 = others.endpoints.size() == 1;
    for (std::byte& each : others.key) {
      const auto theirs = static_cast<std::byte>(in.get<std::uint8_t>());
      if (is_rank_0) each = theirs;
    }
    in.expect_end();
  }
  return others;
}

}  // namespace

std::unique_ptr<TcpControlPlane> connect_hosts(const Placement& placement, const Config& config,
                                               const Doorbell* bell, const AllGather& all_gather,
                                               TimePoint deadline) {
  TcpDoor door;
  JobKey key{};
  std::string failure;
  try {
    door = open_door(config.network_interfaces);
    if (placement.rank == 0) key = draw_key();
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  Others others = read_others(all_gather(encode(failure, door.endpoint(), key), deadline));
  auto plane =
      std::make_unique<TcpControlPlane>(placement, std::move(door), std::move(others.endpoints),
                                        others.key, config.link_timeout, bell);
  const Tree tree = make_tree(placement.rank, placement.host_of);
  const auto is_remote = [&](Rank rank) {
    const std::vector<int>& host_of = placement.host_of;
    return host_of[static_cast<std::size_t>(rank)] !=
           host_of[static_cast<std::size_t>(placement.rank)];
  };
  std::vector<Rank> above;
  std::vector<Rank> below;
  if (is_remote(tree.parent)) above.push_back(tree.parent);
  for (const Rank child : tree.children) {
    if (is_remote(child)) below.push_back(child);
  }
  try {
    plane->connect(above, below, deadline);
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  for (const std::string& text : all_gather(failure, deadline + kTellingLimit)) {
    if (!text.empty()) throw StalledError(text);
  }
  return plane;
}

}  // namespace hvd
