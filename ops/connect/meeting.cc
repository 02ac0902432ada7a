#include "ops/connect/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/config/config.h"
#include "core/config/log.h"
#include "core/system/host.h"
#include "core/system/random_bytes.h"
#include "ops/connect/rendezvous_client.h"
#include "ops/connect/rendezvous_file.h"
#include "ops/connect/rendezvous_server.h"

namespace hvd {
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
