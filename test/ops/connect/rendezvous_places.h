#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <string>

#include "core/base/unique_fd.h"
#include "ops/connect/meeting.h"

namespace hvd::engine::test {

inline TimePoint in(Duration duration) {
  return Clock::now() + duration;
}
constexpr Duration kSoon = std::chrono::milliseconds(300);  // for ranks that do not come
constexpr Duration kPlenty = std::chrono::seconds(20);      // for those that do

inline std::string fresh_word() {
  static std::atomic<int> count{0};
  return "hvd-test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// A port of loopback that nobody listens on.
inline std::uint16_t free_port() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), length);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &length);
  return ntohs(at.sin_port);
}

inline MeetingPoint tcp_point() {
  return {MeetingPoint::Kind::kTcp, "127.0.0.1", free_port()};
}
inline MeetingPoint tcp6_point() {
  return {MeetingPoint::Kind::kTcp, "::1", free_port()};
}
// As of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where nothing says how many hosts there are.
inline MeetingPoint both_point() {
  return {MeetingPoint::Kind::kTcp, "127.0.0.1", free_port(), fresh_word()};
}
inline MeetingPoint unix_point() {
  return {MeetingPoint::Kind::kUnix, fresh_word(), 0};
}
inline MeetingPoint file_point() {
  const auto path = std::filesystem::temp_directory_path() / fresh_word();
  std::filesystem::remove(path);
  return {MeetingPoint::Kind::kFile, path.string(), 0};
}

// What `body` throws, as a Status.
template <typename Body>
Status status_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

}  // namespace hvd::engine::test
