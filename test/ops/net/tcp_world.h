#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "ops/net/tcp_control_plane.h"

namespace hvd::engine::test {

// Rank r is alone on host "node<r>".
inline Placement one_a_host(Rank rank, int size) {
  std::vector<std::string> names;
  for (int host = 0; host < size; ++host) names.push_back("node" + std::to_string(host));
  return place(rank, names, names);
}

inline constexpr Duration kLinkTimeout = std::chrono::seconds(10);

// Where `size` ranks listen, not yet given to a control plane.
struct ListeningRanks {
  explicit ListeningRanks(int size) {
    for (int rank = 0; rank < size; ++rank) {
      listeners.push_back(listen_on_interfaces(""));
      endpoints.push_back(endpoint_of(listeners.back(), ""));
    }
  }

  std::unique_ptr<TcpControlPlane> plane(Rank rank, Duration link_timeout = kLinkTimeout) {
    return std::make_unique<TcpControlPlane>(one_a_host(rank, static_cast<int>(listeners.size())),
                                             std::move(listeners[static_cast<std::size_t>(rank)]),
                                             endpoints, key, link_timeout);
  }

  JobKey key = draw_key();
  std::vector<std::vector<TcpListener>> listeners;  // by rank
  std::vector<TcpEndpoint> endpoints;
};

// At which 127.0.0.1 leads there; 0 if it does not.
inline std::uint16_t loopback_port(const TcpEndpoint& there) {
  for (const TcpAddress& address : there.addresses) {
    if (address.host == "127.0.0.1") return address.port;
  }
  return 0;
}

// A plain socket: what a rank meets that is none, or that breaks off.
class RawSocket {
 public:
  explicit RawSocket(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    limit_time();
    connected_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  }

  // Of who connects to `listener`.
  explicit RawSocket(const TcpListener& listener) : connected_(true) {
    pollfd called{listener.socket.get(), POLLIN, 0};
    poll(&called, 1, 30'000);
    socket_ = UniqueFd(accept(listener.socket.get(), nullptr, nullptr));
    limit_time();
  }

  bool connected() const { return connected_; }
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  // Fewer than asked for if the other end closed the connection; it has 30 s for either.
  Bytes read(std::size_t count) {
    Bytes bytes(count);
    std::size_t here = 0;
    while (here < count) {
      const ssize_t got = ::recv(socket_.get(), bytes.data() + here, count - here, 0);
      if (got <= 0) {
        closed_ = got == 0 || errno == ECONNRESET;
        break;
      }
      here += static_cast<std::size_t>(got);
    }
    bytes.resize(here);
    return bytes;
  }
  // The other end closed it.
  bool is_closed() { return read(1).empty() && closed_; }
  void close() { socket_.reset(); }

 private:
  void limit_time() {
    timeval limit{30, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  UniqueFd socket_;
  bool connected_ = false;
  bool closed_ = false;
};

inline Handshake caller(Rank from, Rank to, const JobKey& key,
                        HandshakeService service = HandshakeService::kControl) {
  return Handshake::caller(key, {.service = service, .to = to}, from);
}

// Rank `from` as far as rank `to` can tell, if the key is that of the job.
inline RawSocket impersonate(Rank from, Rank to, const TcpEndpoint& there, const JobKey& key,
                             HandshakeService service = HandshakeService::kControl) {
  RawSocket raw(loopback_port(there));
  Handshake handshake = caller(from, to, key, service);
  raw.write(handshake.take_output());
  handshake.take(raw.read(kWelcomeBytes));
  raw.write(handshake.take_output());
  return raw;
}

inline Bytes make_frame(TcpFrameKind kind, std::span<const std::byte> body) {
  Bytes frame;
  append_frame(frame, static_cast<std::uint8_t>(kind), kNoRank, body);
  return frame;
}

// What such a frame begins with.
inline Bytes frame_header(TcpFrameKind kind, std::uint32_t length) {
  Bytes header = make_frame(kind, {});
  std::memcpy(header.data(), &length, sizeof length);
  return header;
}

inline Bytes text_message(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace hvd::engine::test
