#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "core/ports/rendezvous.h"
#include "ops/connect/introduction.h"
#include "ops/connect/meeting.h"
#include "ops/net/channel.h"

namespace hvd::engine {

// What ranks and rank 0 send each other after the handshake.
enum class FrameType : std::uint8_t { kHello = 0, kWelcome, kText, kAnswer };

// What is allowed before rank 0 has welcomed a rank.
inline constexpr Channel::Limits kRendezvousLimits = {.types = 4, .most = kRendezvousHelloBytes};

inline void send_frame(Channel& channel, FrameType type, std::span<const std::byte> payload) {
  channel.send(static_cast<std::uint8_t>(type), kNoRank, payload);
}

// Says on standard error why a rank waits: after 5 s, and then ever less often.
class WaitReport {
 public:
  // `wanted`: not in jobs whose launcher watches over all ranks of one host.
  WaitReport(bool wanted, TimePoint deadline);

  // When tell() has to be called next.
  TimePoint next() const { return next_; }
  // `what()` is why, as a text.
  template <typename What>
  void tell(TimePoint now, What what) {
    if (now >= next_) say(now, what());
  }

 private:
  void say(TimePoint now, const std::string& what);

  TimePoint deadline_;
  TimePoint next_;
  Duration pause_;
};

// The end of any rank except 0.
class RendezvousClient final : public Rendezvous {
 public:
  // Waits until rank 0 is there and welcomes it. A listener that does not answer may be another
  // process, which will go: it looks again. Throws StalledError at the deadline, rank 0's error if
  // it refuses this rank, and PeerLostError if something else answers at each of rank 0's
  // addresses, or knows another key; not where they are in a file, which rank 0 may replace.
  RendezvousClient(const Meeting& meeting, TimePoint deadline);

  Rank rank() const noexcept override { return meeting_.rank; }
  int size() const noexcept override { return meeting_.size; }
  std::string secret() const override { return key_; }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override;

 private:
  // False, and why_, if rank 0 is not there yet.
  bool enter(TimePoint deadline);
  std::optional<Frame> greet(const MeetingPoint& point, TimePoint deadline);
  bool shake_hands(TimePoint deadline);
  std::optional<Frame> await_frame(TimePoint deadline);

  const Meeting meeting_;
  const std::string where_;
  std::string key_;
  std::string why_;
  Duration probe_timeout_;  // for the answer of the listener at one address
  WaitReport report_;
  Channel channel_;
};

// What rank 0 leaves in a file for the others. Written whole or not at all, readable by this user.
struct RendezvousNote {
  std::string machine;                // boot_id() of rank 0's
  std::string socket;                 // name of its unix socket, for ranks of that machine
  std::string secret;                 // of this meeting; its key is HVD_RENDEZVOUS_KEY and this
  std::vector<TcpAddress> addresses;  // for ranks of other hosts
};

// Waits a few seconds for the file's folder, which may be made together with the job. Throws
// InvalidArgumentError that names it if it is not there by then, or by the deadline.
void await_folder_of(const std::string& path, TimePoint deadline);

// Nothing if there is no file. Throws InvalidArgumentError if it holds something else, is a link or
// a pipe, or belongs to another user than this one and root.
std::optional<RendezvousNote> read_rendezvous_file(const std::string& path);

// Rank 0's file; removed when destroyed, if it is still this one.
class RendezvousFile {
 public:
  // Replaces what an earlier job left behind. Throws InvalidArgumentError if the file cannot be
  // written, holds something else, or another job's rank 0 still listens where it says.
  RendezvousFile(std::string path, RendezvousNote note);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
  std::string socket_;
};

// Where rank 0 listens: for ranks of its host and for those of others.
struct RendezvousSockets {
  UniqueFd local;
  std::vector<TcpListener> tcp;
  std::string obstacle = {};  // why no rank can come from other hosts, where that may not matter

  // Both throw InvalidArgumentError if it cannot listen. What the file has to say of `tcp` is added
  // to `note`, in which the other things are.
  static RendezvousSockets of_point(const Meeting& meeting);
  static RendezvousSockets of_file(const Meeting& meeting, RendezvousNote& note);
};

// Rank 0's end: it listens, collects what the others say and answers all of them. What is wrong
// with a rank of this job (it died; and if the job has a key, so that it is of this job for sure,
// its number is taken or out of range, or its world has another size) ends the gathering on every
// rank at once, and for a moment on those that come then. Unauthenticated peers are turned away and
// do not matter; nor do, without a key, those that do not fit: they may be of another job of this
// user.
class RendezvousServer final : public Rendezvous {
 public:
  // `key`: what the others have to know; empty = none. `file`: in which they find `sockets`.
  RendezvousServer(Meeting meeting, RendezvousSockets sockets, std::string key,
                   std::unique_ptr<RendezvousFile> file = nullptr);

  Rank rank() const noexcept override { return 0; }
  int size() const noexcept override { return meeting_.size; }
  std::string secret() const override { return key_; }
  std::vector<std::string> all_gather(const std::string& mine, TimePoint deadline) override;

 private:
  struct Client {
    Client(TcpDescriptor fd, Handshake handshake, TimePoint until)
        : channel(std::move(fd), std::move(handshake), kRendezvousLimits), limit(until) {}
    Channel channel;
    TimePoint limit;  // for its hello
    Rank rank = -1;   // until then
    std::int64_t process = 0;
    std::optional<std::string> text;
    bool sent_away = false;
  };

  void collect(TimePoint deadline);
  TimePoint look(TimePoint deadline);
  void tell_late_ranks(const Status& failure, TimePoint limit);
  TimePoint next_look(TimePoint deadline) const;
  void accept(const pollfd& listening);
  void forget_unauthenticated(TimePoint now);
  bool complete() const;
  std::vector<bool> who_is_here() const;
  Status who_is_missing() const;
  std::string progress() const;
  std::string details() const;
  void serve(Client& client);
  void check_handshake(Client& client);
  void handle(Client& client, const Frame& frame);
  void welcome(Client& client, const RendezvousHello& hello);
  void check_place(Rank rank, const RendezvousHello& hello) const;
  void send_away(Client& client, const std::string& why);
  void answer(const Bytes& bytes, TimePoint deadline);

  const Meeting meeting_;
  const std::string where_;
  const std::string key_;
  RendezvousSockets sockets_;
  TimePoint listen_again_ = TimePoint::min();  // the system was out of descriptors
  std::list<Client> clients_;
  Status failure_;                              // of the gathering, for ranks that come after it
  int late_ = 0;                                // ranks that have not heard of it
  std::string refused_;                         // why the last one was turned away
  bool warned_ = false;                         // of one that does not fit
  WaitReport report_;                           // of the gathering that goes on
  const std::unique_ptr<RendezvousFile> file_;  // last: it goes before the sockets that it names
};

}  // namespace hvd::engine
