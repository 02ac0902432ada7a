#include "ops/shm/descriptor_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

struct Record {
  std::uint32_t magic = 0x44565648;  // "HVVD", against a program that is none of ours
  std::int32_t number = 0;
};

constexpr std::size_t kControlBytes = CMSG_SPACE(DescriptorMessage::kMost * sizeof(int));

// What sendmsg() and recvmsg() take; for one call.
struct Envelope {
  Record record;
  alignas(cmsghdr) char control[kControlBytes] = {};
  iovec data{&record, sizeof record};
  msghdr header{};

  Envelope() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;
};

std::vector<UniqueFd> descriptors_of(msghdr& header) {
  std::vector<UniqueFd> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      found.emplace_back(fd);
    }
  }
  return found;
}

}  // namespace

bool send_descriptors(const UniqueFd& socket, std::int32_t number,
                      std::span<const int> descriptors) {
  Envelope envelope;
  envelope.record.number = number;
  const std::size_t bytes = std::min(descriptors.size(), DescriptorMessage::kMost) * sizeof(int);
  envelope.header.msg_controllen = bytes == 0 ? 0 : CMSG_SPACE(bytes);
  if (bytes != 0) {
    cmsghdr* const part = CMSG_FIRSTHDR(&envelope.header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
  }
  const ssize_t sent = sendmsg(socket.get(), &envelope.header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(sizeof envelope.record)) return true;
  // ETOOMANYREFS: more descriptors of this user are on their way than one process may have open.
  if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS)) return false;
  throw PeerLostError(std::string("cannot hand over shared memory: ") +
                      (sent < 0 ? std::strerror(errno) : "a part of a message"));
}

std::optional<DescriptorMessage> receive_descriptors(const UniqueFd& socket) {
  Envelope envelope;
  const ssize_t got = recvmsg(socket.get(), &envelope.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) {
    throw PeerLostError(std::string("cannot take over shared memory: ") +
                        (got < 0 ? std::strerror(errno) : "the other end is gone"));
  }
  DescriptorMessage message{envelope.record.number, descriptors_of(envelope.header)};
  if ((envelope.header.msg_flags & MSG_CTRUNC) != 0) {
    throw UnsupportedError(
        "cannot take over shared memory: this process may not open that many files (ulimit -n)");
  }
  if (got != static_cast<ssize_t>(sizeof envelope.record) ||
      envelope.record.magic != Record().magic) {
    throw PeerLostError("cannot take over shared memory: the other end sent something else");
  }
  return message;
}

}  // namespace hvd::engine
