#include "test/support/sim/sim_network.h"

#include <algorithm>
#include <utility>

namespace hvd::engine {

SimNetwork::SimNetwork(int size, Duration max_delay, std::uint64_t seed)
    : max_delay_(max_delay),
      random_(seed),
      boxes_(static_cast<std::size_t>(size)),
      bell_states_(boxes_.size()) {
  for (Box& box : boxes_) box.last_due.resize(boxes_.size());
  bells_.reserve(boxes_.size());
  for (DoorbellState& state : bell_states_) bells_.emplace_back(state);
}

void SimNetwork::send(Rank from, Rank to, std::span<const std::byte> message) {
  {
    const MutexLock lock(mutex_);
    if (box(from).cut || box(to).cut) return;
    TimePoint& last = box(to).last_due[static_cast<std::size_t>(from)];
    last = std::max(last, Clock::now() + random_delay(random_, max_delay_));
    box(to).mail.push_back({{from, Bytes(message.begin(), message.end())}, last});
  }
  doorbell(to).ring();
}

std::optional<Message> SimNetwork::poll(Rank rank) {
  const MutexLock lock(mutex_);
  Box& mine = box(rank);
  const TimePoint now = max_delay_ == Duration::zero() ? TimePoint::max() : Clock::now();
  for (auto mail = mine.mail.begin(); mail != mine.mail.end(); ++mail) {
    if (mail->due > now || box(mail->message.from).silent) continue;
    Message message = std::move(mail->message);
    mine.mail.erase(mail);
    return message;
  }
  if (mine.losses.empty()) return std::nullopt;
  const Loss loss = std::move(mine.losses.front());
  mine.losses.pop_front();
  throw LostRankError(loss.rank, loss.why);
}

void SimNetwork::ring_all() {
  for (Doorbell& bell : bells_) bell.ring();
}

void SimNetwork::cut(Rank rank, const std::string& why) {
  {
    const MutexLock lock(mutex_);
    if (box(rank).cut) return;
    box(rank).cut = true;
    box(rank).mail.clear();
    for (Rank peer = 0; peer < static_cast<Rank>(boxes_.size()); ++peer) {
      if (peer == rank || box(peer).cut) continue;
      std::erase_if(box(peer).mail, [&](const Mail& mail) { return mail.message.from == rank; });
      box(peer).losses.push_back({rank, "rank " + std::to_string(rank) + " is gone: " + why});
      box(rank).losses.push_back(
          {peer, "rank " + std::to_string(peer) + " is out of reach: " + why});
    }
  }
  ring_all();
}

void SimNetwork::silence(Rank rank, bool silent) {
  {
    const MutexLock lock(mutex_);
    box(rank).silent = silent;
  }
  ring_all();
}

}  // namespace hvd::engine
