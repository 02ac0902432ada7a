#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "ops/host/message_link.h"
#include "ops/net/tcp_control_plane.h"
#include "ops/net/tcp_stream.h"

namespace hvd::engine {

// Messages over TCP. A rank connects to another one when it first sends to it; each connection
// carries one direction. The caller moves the bytes, without a lock or another thread; while it
// sleeps, the control plane's thread watches and rings the doorbell.
class TcpLink final : public host::MessageLink {
 public:
  // Pieces whose parts stay in a core's cache until they are reduced.
  static constexpr host::MessageLimits kLimits = {.piece_bytes = std::size_t{128} << 10,
                                                  .pieces = 8};

  // `plane` must outlive it and has one link at a time.
  explicit TcpLink(TcpControlPlane& plane, const host::MessageLimits& limits = kLimits);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  Rank rank() const noexcept override { return plane_.topology().rank; }
  int size() const noexcept override { return plane_.topology().size; }
  const host::MessageLimits& limits() const noexcept override { return limits_; }

  std::unique_ptr<host::Messages> messages() override;
  void say(Rank to, Bytes note) override;
  std::optional<Message> hear() override;
  bool flush() override;

  void begin_work() noexcept override { ++work_; }
  void end_work() noexcept override { --work_; }
  std::optional<Duration> poll_interval(bool restless) const override;
  std::optional<Duration> prepare_sleep(bool restless) override;
  bool progress(TimePoint now) override;

 private:
  friend class TcpMessages;

  struct Peer {
    TcpSendingStream sends;
    TcpReceivingStream receives;
    TcpDescriptor outgoing;
    TcpDescriptor incoming;
    bool opened = false;                      // the outgoing one is there or being made
    bool ended = false;                       // the incoming one was there
    std::string end;                          // and why it is not any more
    std::optional<std::string> outgoing_end;  // the outgoing one was there, and why it is not
    std::string lost;                         // why it is; names rank and host
    // What epoll is told of: one that is looked at for nothing would ring again and again.
    bool watches_writing = false;
    bool watches_reading = false;
  };

  Peer& peer(Rank rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  void post_send(Rank to, const host::MessageKey& key, std::span<const std::byte> data,
                 TcpOutstanding& owner);
  void post_receive(Rank from, const host::MessageKey& key, std::span<std::byte> data,
                    TcpOutstanding& owner);
  void withdraw(const TcpOutstanding& owner) noexcept;
  void throw_if_lost(const TcpOutstanding& owner) const;

  void connect_to_self();
  // Moves what can be moved now.
  void poll();
  void take_connection(TcpNetwork::Data connection);
  void write(Rank to);
  void read(Rank from, bool is_over);
  void report_end_if_awaited(Rank from);
  void lose(Rank rank, std::string why);
  void note_movement() noexcept { looks_left_ = size(); }
  // Tells epoll what to look for until the next poll().
  void watch(Peer& peer, Rank rank);
  std::size_t unowned() const noexcept;

  TcpControlPlane& plane_;
  const host::MessageLimits limits_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::deque<Message> notes_;
  int work_ = 0;
  int looks_left_ = 0;  // before it sleeps
  TimePoint last_looked_;
};

}  // namespace hvd::engine
