#include "ops/tcp/connect_hosts.h"

#include <optional>
#include <utility>

#include "core/negotiate/tree.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kTellingLimit{5};  // past the deadline, for who met it to tell

std::string as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What each rank says first: that it failed and why, or where its door is.
std::string encode(const std::string& failure, const TcpEndpoint& endpoint) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_string(failure);
  put_endpoint(out, endpoint);
  return as_text(bytes);
}

std::string prefixed(const Placement& placement, const Error& error) {
  return "rank " + std::to_string(placement.rank) + " on host " +
         placement.host_name(placement.rank) + ": " + error.what();
}

std::vector<TcpEndpoint> read_endpoints(const std::vector<std::string>& texts) {
  std::vector<TcpEndpoint> endpoints;
  for (const std::string& text : texts) {
    ByteReader in(std::as_bytes(std::span(text)));
    const std::string failure = in.get_string();
    if (!failure.empty()) throw UnsupportedError(failure);
    endpoints.push_back(get_endpoint(in));
    in.expect_end();
  }
  return endpoints;
}

}  // namespace

std::unique_ptr<TcpControlPlane> connect_hosts(const Placement& placement,
                                               const std::string& interfaces, const Doorbell* bell,
                                               const AllGather& all_gather, TimePoint deadline) {
  TcpDoor door;
  std::string failure;
  try {
    door = open_door(interfaces);
  } catch (const Error& error) {
    failure = prefixed(placement, error);
  }
  auto endpoints = read_endpoints(all_gather(encode(failure, door.endpoint), deadline));
  auto plane =
      std::make_unique<TcpControlPlane>(placement, std::move(door), std::move(endpoints), bell);
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
    failure = prefixed(placement, error);
  }
  for (const std::string& text : all_gather(failure, deadline + kTellingLimit)) {
    if (!text.empty()) throw StalledError(text);
  }
  return plane;
}

}  // namespace hvd
