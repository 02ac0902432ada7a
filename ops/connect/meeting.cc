#include "ops/connect/meeting.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/log.h"
#include "core/system/host.h"
#include "ops/connect/local_socket.h"
#include "ops/connect/rendezvous.h"

namespace hvd::engine {
namespace {

using Kind = MeetingPoint::Kind;

constexpr const char* kOfSeveralHosts =
    "for several hosts set HVD_RENDEZVOUS=tcp://host:port, a free port of rank 0's host, or "
    "file:///folder/name in a folder that all of them share, or start the job with hvdrun -H "
    "host:slots,...";

[[noreturn]] void refuse(const std::string& origin, std::string_view text) {
  throw InvalidArgumentError(
      origin, "='", text, "': expected env://, tcp://HOST:PORT, file:///FOLDER/NAME or unix:NAME");
}

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

}  // namespace

MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin) {
  if (const auto rest = after(text, "tcp://")) {
    const auto address = parse_tcp_address(*rest);
    if (!address) refuse(origin, text);
    return {Kind::kTcp, address->host == "localhost" ? "127.0.0.1" : address->host, address->port};
  }
  if (const auto path = after(text, "file://"); path && path->starts_with('/')) {
    return {Kind::kFile, std::string(*path), 0};
  }
  if (const auto name = after(text, "unix:"); name && !name->empty()) {
    if (name->size() <= kLongestSocketName) return {Kind::kUnix, std::string(*name), 0};
  }
  refuse(origin, text);
}

std::string to_string(const MeetingPoint& point) {
  switch (point.kind) {
    case Kind::kTcp:
      return "tcp://" + to_string(TcpAddress{point.where, point.port});
    case Kind::kFile:
      return "file://" + point.where;
    case Kind::kUnix:
      break;
  }
  return "unix:" + point.where;
}

TcpDescriptor connect_to(const MeetingPoint& point, Duration link_timeout, TimePoint deadline,
                         std::string& why) {
  if (point.kind == Kind::kUnix) {
    UniqueFd fd = connect_locally(point.where, why);
    return TcpDescriptor(fd.release());
  }
  TcpDescriptor fd = connect_to(TcpAddress{point.where, point.port}, link_timeout);
  if (!fd) {
    why = std::strerror(errno);
    return {};
  }
  pollfd ready = {fd.get(), POLLOUT, 0};
  while (ready.revents == 0) {
    if (wait_for({&ready, 1}, deadline)) continue;
    why = "no answer";
    return {};
  }
  if (const int error = connect_result(fd.get()); error != 0) {
    why = std::strerror(error);
    return {};
  }
  // A port that nothing listens on may be given to the very socket that looks for it.
  if (own_address(fd.get()) != peer_address(fd.get())) return fd;
  why = "nothing listens there";
  return {};
}

namespace {

constexpr std::size_t kGoodKey = 16;  // characters

// All ranks of one host that torchrun or a script started have these in common, and no other job of
// this user on this machine has them at the same time.
std::string name_of_environment(const std::string& address, const std::string& port) {
  std::string name = "hvd-" + std::to_string(geteuid()) + "-" + address + "-" + port;
  for (const char* more : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    name += "-" + environment(more).value_or("");
  }
  return name;
}

std::optional<MeetingPoint> point_of_environment(std::optional<bool> one_host) {
  const auto address = environment("MASTER_ADDR");
  const auto port = environment("MASTER_PORT");
  if (!address || !port) return std::nullopt;
  const std::string name = name_of_environment(*address, *port);
  const bool is_here = is_loopback(*address) || *address == "localhost";
  if (one_host.value_or(is_here)) {
    return parse_meeting_point("unix:" + name, "MASTER_ADDR, MASTER_PORT: unix socket");
  }
  if (one_host == false && environment("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    throw UnsupportedError("torchrun started ranks on several hosts and listens at MASTER_PORT (",
                           *port, ") itself, so they cannot meet there: ", kOfSeveralHosts);
  }
  const bool is_v6 = address->find(':') != std::string::npos && !address->starts_with('[');
  MeetingPoint point =
      parse_meeting_point("tcp://" + (is_v6 ? "[" + *address + "]" : *address) + ":" + *port,
                          "MASTER_ADDR and MASTER_PORT");
  if (!one_host && name.size() <= kLongestSocketName) point.local = name;
  return point;
}

std::optional<MeetingPoint> find_point(const std::string& url, std::optional<bool> one_host) {
  if (!url.empty() && url != "env://") return parse_meeting_point(url, "HVD_RENDEZVOUS");
  auto point = point_of_environment(one_host);
  if (point || url.empty()) return point;
  throw InvalidArgumentError(
      "HVD_RENDEZVOUS='env://', but MASTER_ADDR and MASTER_PORT are not set");
}

void check_place(const LaunchInfo& launch, const MeetingPoint& point) {
  const bool known = launch.rank && launch.size;
  if (!known || *launch.rank < 0 || *launch.size < 1 || *launch.rank >= *launch.size) {
    throw InvalidArgumentError(launch.launcher, " started this process as ", place_in_job(launch),
                               ": expected two whole numbers, the rank below the size");
  }
  const bool is_of_one_host =
      point.kind == Kind::kUnix || (point.kind == Kind::kTcp && is_loopback(point.where));
  if (is_of_one_host && launch.local_size && *launch.local_size != *launch.size) {
    throw InvalidArgumentError(launch.launcher, " started ", *launch.local_size, " of ",
                               *launch.size, " ranks on this host, but only ranks of one host ",
                               "can meet at ", to_string(point), ": ", kOfSeveralHosts);
  }
}

// A peer that connects gets a tag against which it can try keys, so a key must not be guessable.
void check_key(const Meeting& meeting) {
  if (meeting.point.kind != Kind::kTcp || meeting.key.size() >= kGoodKey) return;
  const std::string fault =
      (meeting.key.empty()
           ? "HVD_RENDEZVOUS_KEY is not set: whoever reaches " + to_string(meeting.point) +
                 " could join or end this job"
           : "HVD_RENDEZVOUS_KEY has " + std::to_string(meeting.key.size()) +
                 " characters: whoever connects to " + to_string(meeting.point) + " can guess it") +
      "; set it to one random text on all ranks (openssl rand -hex 16 makes one), or meet at "
      "file:///folder/name, in which rank 0 leaves a key of its own";
  if (meeting.key.empty() && meeting.network.require_key) {
    throw InvalidArgumentError("HVD_REQUIRE_KEY=1, but " + fault);
  }
  if (meeting.rank == 0) log(LogLevel::kWarning, fault);
}

}  // namespace

std::string place_in_job(const LaunchInfo& launch) {
  const auto text = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : "?";
  };
  return "rank " + text(launch.rank) + " of " + text(launch.size);
}

std::optional<Meeting> find_meeting(const LaunchInfo& launch, const Config& config) {
  std::optional<bool> one_host;
  if (launch.local_size && launch.size) one_host = *launch.local_size == *launch.size;
  auto point = find_point(config.rendezvous, one_host);
  if (!point) return std::nullopt;
  check_place(launch, *point);
  return Meeting{.point = std::move(*point),
                 .rank = *launch.rank,
                 .size = *launch.size,
                 .key = environment("HVD_RENDEZVOUS_KEY").value_or(""),
                 .one_host = one_host,
                 .network = config};
}

std::unique_ptr<Rendezvous> attend(const Meeting& meeting, TimePoint deadline) {
  check_key(meeting);
  const bool by_file = meeting.point.kind == Kind::kFile;
  if (by_file) await_folder_of(meeting.point.where, deadline);
  if (meeting.rank != 0) return std::make_unique<RendezvousClient>(meeting, deadline);
  if (by_file) {
    RendezvousNote note{
        boot_id(), str_cat("hvd-", getpid(), "-", random_hex(32)), random_hex(32), {}};
    RendezvousSockets sockets = RendezvousSockets::of_file(meeting, note);
    const std::string key = meeting.key + note.secret;
    auto file = std::make_unique<RendezvousFile>(meeting.point.where, std::move(note));
    return std::make_unique<RendezvousServer>(meeting, std::move(sockets), key, std::move(file));
  }
  return std::make_unique<RendezvousServer>(meeting, RendezvousSockets::of_point(meeting),
                                            meeting.key);
}

}  // namespace hvd::engine
