#pragma once

#include <list>
#include <optional>

#include "core/ports/rendezvous.h"
#include "ops/connect/frame_stream.h"
#include "ops/connect/hello.h"
#include "ops/connect/meeting_point.h"

namespace hvd {

// Rank 0's end: it listens, collects what the others say and answers all of them. What is wrong
// with a rank of this job (it died; and if the job has a key, so that it is of this job for sure,
// its number is taken or out of range, or its world has another size) ends the gathering on every
// rank at once. Strangers are sent away and do not matter; nor do, without a key, those that do not
// fit: they may be of another job of this user.
class RendezvousServer final : public Rendezvous {
 public:
  // Listens at `point` (not kFile). `key`: what the others have to know; empty = none.
  RendezvousServer(MeetingPoint point, int size, std::string key);

  Rank rank() const noexcept override { return 0; }
  int size() const noexcept override { return size_; }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override;

 private:
  struct Client {
    Client(UniqueFd fd, Handshake handshake, TimePoint until)
        : stream(std::move(fd), std::move(handshake), kRendezvousHelloBytes), limit(until) {}
    FrameStream stream;
    TimePoint limit;  // for its hello
    Rank rank = -1;   // until then
    std::int64_t process = 0;
    std::optional<std::string> text;
    bool sent_away = false;
  };

  void collect(TimePoint deadline);
  TimePoint next_look(TimePoint deadline) const;
  void accept();
  void forget_strangers(TimePoint now);
  bool complete() const;
  Status who_is_missing() const;
  void serve(Client& client);
  void check_handshake(Client& client);
  void handle(Client& client, const Frame& frame);
  void welcome(Client& client, const RendezvousHello& hello);
  void check_place(Rank rank, const RendezvousHello& hello) const;
  void send_away(Client& client, const std::string& why);
  void answer(const Bytes& bytes, TimePoint deadline);

  MeetingPoint point_;
  int size_;
  std::string key_;
  UniqueFd listener_;
  TimePoint listen_again_ = TimePoint::min();  // the system was out of descriptors
  std::list<Client> clients_;
  std::string refused_;  // why the last stranger was sent away
};

}  // namespace hvd
