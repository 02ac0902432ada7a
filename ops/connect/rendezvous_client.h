#pragma once

#include <memory>

#include "core/ports/rendezvous.h"
#include "ops/connect/frame_stream.h"
#include "ops/connect/meeting_point.h"

namespace hvd {

// The end of any rank but 0.
class RendezvousClient final : public Rendezvous {
 public:
  // Waits until rank 0 is there and bids welcome. Who listens there and does not answer may be
  // somebody else, who goes: it looks again. Throws StalledError at the deadline, what rank 0 has
  // against this rank, and PeerLostError if something else answers, or who does not know `key`.
  RendezvousClient(const MeetingPoint& point, Rank rank, int size, const std::string& key,
                   TimePoint deadline);

  Rank rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override;

 private:
  bool enter(const MeetingPoint& point, const std::string& key, TimePoint deadline,
             Duration& probe_timeout, std::string& why);
  bool shake_hands(TimePoint deadline);
  std::optional<Frame> await_frame(TimePoint deadline);

  Rank rank_;
  int size_;
  std::string where_;
  std::unique_ptr<FrameStream> stream_;
};

}  // namespace hvd
