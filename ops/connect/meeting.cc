#include "ops/connect/meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/log.h"
#include "core/system/host.h"
#include "ops/connect/rendezvous.h"

namespace hvd {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kLongestName = sizeof(sockaddr_un::sun_path) - 1;

using Kind = MeetingPoint::Kind;

struct Address {
  union {
    sockaddr any;
    sockaddr_in tcp;
    sockaddr_un local;
  };
  socklen_t length = 0;
};

// Names of unix sockets that begin with a zero byte are in no file system.
Address address_of(const MeetingPoint& point) {
  Address address;
  if (point.kind == Kind::kTcp) {
    address.tcp = {};
    address.tcp.sin_family = AF_INET;
    address.tcp.sin_port = htons(point.port);
    inet_pton(AF_INET, point.where.c_str(), &address.tcp.sin_addr);
    address.length = sizeof address.tcp;
    return address;
  }
  address.local = {};
  address.local.sun_family = AF_UNIX;
  std::memcpy(address.local.sun_path + 1, point.where.data(), point.where.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + point.where.size());
  return address;
}

UniqueFd make_socket(const MeetingPoint& point, int flags) {
  const int family = point.kind == Kind::kTcp ? AF_INET : AF_UNIX;
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd) throw InternalError(std::string("socket: ") + std::strerror(errno));
  return fd;
}

// Loopback ports are every user's; who is at the other end of a unix socket is known.
bool is_another_users(const UniqueFd& fd, const MeetingPoint& point) {
  if (point.kind == Kind::kTcp) return false;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return true;
  return peer.uid != geteuid() && peer.uid != 0;
}

// A port that nobody listens on may be given to the very socket that looks for it.
bool is_connected_to_itself(const UniqueFd& fd, const MeetingPoint& point) {
  if (point.kind != Kind::kTcp) return false;
  sockaddr_in own{};
  socklen_t length = sizeof own;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
  return ntohs(own.sin_port) == point.port;
}

[[noreturn]] void refuse(const std::string& origin, std::string_view text) {
  throw InvalidArgumentError(origin + "='" + std::string(text) +
                             "': expected tcp://127.0.0.1:PORT, file:///FOLDER/NAME or unix:NAME");
}

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

MeetingPoint parse_tcp(std::string_view rest, std::string_view text, const std::string& origin) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) refuse(origin, text);
  MeetingPoint point{Kind::kTcp, std::string(rest.substr(0, colon)), 0};
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), point.port);
  if (error != std::errc() || end != port.data() + port.size() || point.port == 0) {
    refuse(origin, text);
  }
  if (point.where == "localhost") point.where = "127.0.0.1";
  in_addr address{};
  const bool is_ip = inet_pton(AF_INET, point.where.c_str(), &address) == 1;
  if (is_ip && (ntohl(address.s_addr) >> 24) == 127) return point;
  throw UnsupportedError(origin + "='" + std::string(text) +
                         "': without MPI the ranks meet on one machine, at 127.0.0.1 or localhost; "
                         "for several machines start the job with hvdrun -H host:slots,...");
}

}  // namespace

MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin) {
  if (const auto rest = after(text, "tcp://")) return parse_tcp(*rest, text, origin);
  if (const auto path = after(text, "file://"); path && path->starts_with('/')) {
    return {Kind::kFile, std::string(*path), 0};
  }
  if (const auto name = after(text, "unix:"); name && !name->empty()) {
    if (name->size() <= kLongestName) return {Kind::kUnix, std::string(*name), 0};
  }
  refuse(origin, text);
}

std::string to_string(const MeetingPoint& point) {
  switch (point.kind) {
    case Kind::kTcp:
      return "tcp://" + point.where + ":" + std::to_string(point.port);
    case Kind::kFile:
      return "file://" + point.where;
    case Kind::kUnix:
      break;
  }
  return "unix:" + point.where;
}

UniqueFd listen_at(const MeetingPoint& point) {
  UniqueFd fd = make_socket(point, SOCK_NONBLOCK);
  const int on = 1;  // a port that an earlier job has just left
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const Address at = address_of(point);
  if (bind(fd.get(), &at.any, at.length) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    throw InvalidArgumentError(
        "rank 0 cannot listen at " + to_string(point) + ": " + std::strerror(error) +
        (error == EADDRINUSE ? "; another program or another rank 0 does, choose another one"
                             : ""));
  }
  return fd;
}

UniqueFd accept_from(const UniqueFd& listener, const MeetingPoint& point) {
  UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd && is_another_users(fd, point)) {
    fd.reset();
    errno = EPERM;
  }
  return fd;
}

UniqueFd connect_to(const MeetingPoint& point, std::string& why) {
  UniqueFd fd = make_socket(point, 0);
  const timeval limit{1, 0};  // a listener that was stopped, with a full queue
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const Address to = address_of(point);
  if (connect(fd.get(), &to.any, to.length) != 0) {
    why = std::strerror(errno);
    return {};
  }
  if (is_connected_to_itself(fd, point)) {
    why = "nobody listens";
    return {};
  }
  if (is_another_users(fd, point)) {
    throw PeerLostError("another user's process listens at " + to_string(point));
  }
  return fd;
}

namespace {

constexpr std::size_t kGoodKey = 16;  // characters

// Rank 0's end of a meeting by file. The file goes before the socket it names.
class FileRendezvous final : public Rendezvous {
 public:
  explicit FileRendezvous(const Meeting& meeting)
      : point_{MeetingPoint::Kind::kUnix, fresh_name(), 0},
        host_(point_, meeting.size, meeting.key),
        file_(meeting.point.where, {boot_id(), point_.where}) {}

  Rank rank() const noexcept override { return host_.rank(); }
  int size() const noexcept override { return host_.size(); }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override {
    return host_.all_gather(mine, deadline);
  }

 private:
  static std::string fresh_name() {
    return "hvd-" + std::to_string(getpid()) + "-" + random_hex(32);
  }

  MeetingPoint point_;
  RendezvousServer host_;
  RendezvousFile file_;
};

// All ranks of a job that torchrun or a script started have these in common, and no other job of
// this user on this machine has them at the same time.
std::optional<MeetingPoint> point_of_environment() {
  const auto address = environment("MASTER_ADDR");
  const auto port = environment("MASTER_PORT");
  if (!address || !port) return std::nullopt;
  std::string name = "hvd-" + std::to_string(geteuid()) + "-" + *address + "-" + *port;
  for (const char* more : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    name += "-" + environment(more).value_or("");
  }
  return parse_meeting_point("unix:" + name, "MASTER_ADDR, MASTER_PORT: unix socket");
}

std::optional<MeetingPoint> find_point(const std::string& url) {
  if (url.empty()) return point_of_environment();
  if (url != "env://") return parse_meeting_point(url, "HVD_RENDEZVOUS");
  if (auto point = point_of_environment()) return point;
  throw InvalidArgumentError(
      "HVD_RENDEZVOUS='env://', but MASTER_ADDR and MASTER_PORT are not set");
}

void check_place(const LaunchInfo& launch) {
  const auto text = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string("?");
  };
  const bool known = launch.rank && launch.size;
  if (!known || *launch.rank < 0 || *launch.size < 1 || *launch.rank >= *launch.size) {
    throw InvalidArgumentError(launch.launcher + " started this process as rank " +
                               text(launch.rank) + " of " + text(launch.size) +
                               ": expected two whole numbers, the rank below the size");
  }
  if (launch.local_size && *launch.local_size != *launch.size) {
    throw UnsupportedError(launch.launcher + " started " + text(launch.local_size) + " of " +
                           text(launch.size) +
                           " ranks on this machine: without MPI all have to be on one; for "
                           "several machines start the job with hvdrun -H host:slots,...");
  }
}

// Who is at the other end of a unix socket is known; a port of loopback is every user's. Who
// connects to it gets a tag by which it can try keys at home, so a key must not be guessable.
void check_key(const Meeting& meeting) {
  if (meeting.point.kind != MeetingPoint::Kind::kTcp || meeting.key.size() >= kGoodKey) return;
  const std::string advice =
      "set HVD_RENDEZVOUS_KEY to one random text on all ranks (openssl rand -hex 16 makes one), or "
      "meet at file:///folder/name or unix:name, which only processes of this user reach";
  if (meeting.key.empty()) {
    throw InvalidArgumentError("HVD_RENDEZVOUS='" + to_string(meeting.point) +
                               "' without a key: every user of this machine could join or end the "
                               "job there; " +
                               advice);
  }
  if (meeting.rank != 0) return;
  log(LogLevel::kWarning, "HVD_RENDEZVOUS_KEY has " + std::to_string(meeting.key.size()) +
                              " characters: whoever connects to " + to_string(meeting.point) +
                              " can guess it; " + advice);
}

}  // namespace

std::optional<Meeting> find_meeting(const LaunchInfo& launch, const std::string& url) {
  auto point = find_point(url);
  if (!point) return std::nullopt;
  check_place(launch);
  return Meeting{std::move(*point), *launch.rank, *launch.size,
                 environment("HVD_RENDEZVOUS_KEY").value_or("")};
}

std::unique_ptr<Rendezvous> attend(const Meeting& meeting, TimePoint deadline) {
  check_key(meeting);
  const bool by_file = meeting.point.kind == MeetingPoint::Kind::kFile;
  if (by_file) await_folder_of(meeting.point.where, deadline);
  if (meeting.rank != 0) {
    return std::make_unique<RendezvousClient>(meeting.point, meeting.rank, meeting.size,
                                              meeting.key, deadline);
  }
  if (by_file) return std::make_unique<FileRendezvous>(meeting);
  return std::make_unique<RendezvousServer>(meeting.point, meeting.size, meeting.key);
}

}  // namespace hvd
