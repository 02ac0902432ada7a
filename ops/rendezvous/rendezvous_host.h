#pragma once

#include <list>
#include <optional>

#include "core/base/rendezvous.h"
#include "ops/rendezvous/frame_stream.h"
#include "ops/rendezvous/hello.h"
#include "ops/rendezvous/meeting_point.h"

namespace hvd {

// Rank 0's end: it listens, collects what the others say and answers all of them. What is wrong
// with a rank of this job (number taken or out of range, another size, it died) ends the gathering
// on every rank at once; strangers are sent away and do not matter.
class RendezvousHost final : public Rendezvous {
 public:
  // Listens at `point` (not kFile). `key`: what the others have to show.
  RendezvousHost(MeetingPoint point, int size, std::string key);

  Rank rank() const noexcept override { return 0; }
  int size() const noexcept override { return size_; }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override;

 private:
  struct Guest {
    explicit Guest(UniqueFd fd) : stream(std::move(fd), kLongestHello) {}
    FrameStream stream;
    Rank rank = -1;  // until it said hello
    std::int64_t process = 0;
    std::optional<std::string> text;
    bool sent_away = false;
  };

  void collect(TimePoint deadline);
  bool complete() const;
  Status who_is_missing() const;
  void serve(Guest& guest);
  void handle(Guest& guest, const Frame& frame);
  void welcome(Guest& guest, const RendezvousHello& hello);
  void check_place(const RendezvousHello& hello) const;
  void send_away(Guest& guest, const std::string& why);
  void answer(const Bytes& bytes, TimePoint deadline);

  MeetingPoint point_;
  int size_;
  std::string key_;
  UniqueFd listener_;
  std::list<Guest> guests_;
  std::string refused_;  // why the last stranger was sent away
};

}  // namespace hvd
