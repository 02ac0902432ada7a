#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "ops/host/message_link.h"
#include "ops/net/tcp_socket.h"

// The two ends of a connection that carries messages of a host::MessageLink in one direction, as
// frames: a header, the bytes, and one byte that says whether the sender gave up half way. Not
// thread-safe.
namespace hvd::engine {

enum class TcpMessageKind : std::uint32_t { kData = 1, kNote = 2 };

struct TcpMessageHeader {
  host::MessageKey key;
  TcpMessageKind kind = TcpMessageKind::kData;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kMessageHeaderBytes = 32;

// What of one Messages has not moved yet.
struct TcpOutstanding {
  std::size_t count = 0;
  bool complete = true;  // all that came was as long as was expected
  Rank lost = -1;        // a rank to or from which something of it will not move
};

class TcpSendingStream {
 public:
  // `data` must live until `owner`, which may be null, counts one less.
  void post(const TcpMessageHeader& header, std::span<const std::byte> data, TcpOutstanding* owner);
  void post_note(Bytes note);
  // What is not on its way becomes an empty message, the rest of what is half way zeros: the stream
  // stays in step with the receives of the other end.
  void withdraw(const TcpOutstanding* owner) noexcept;
  // Writes what the socket takes; true if that was something. Empty when the connection is over,
  // and why.
  std::optional<bool> write(int socket, std::string& why);
  // The other end is lost.
  void fail(Rank peer) noexcept;

  bool empty() const noexcept { return frames_.empty(); }
  // Messages that no Messages waits for.
  std::size_t unowned() const noexcept { return unowned_; }

 private:
  struct Frame {
    std::array<std::byte, kMessageHeaderBytes> header;
    const std::byte* data = nullptr;  // nullptr: zeros
    std::size_t bytes = 0;
    TcpOutstanding* owner = nullptr;
    Bytes note;
    std::byte whole{1};  // the last byte

    std::size_t total() const noexcept { return header.size() + bytes + 1; }
    // What of it lies in one region from there on.
    std::span<const std::byte> at(std::size_t offset) const;
  };

  std::deque<Frame> frames_;
  std::size_t sent_ = 0;  // bytes of the first one
  std::size_t unowned_ = 0;
};

class TcpReceivingStream {
 public:
  // A message without a receive is kept up to this length; a longer one stays in the socket, and
  // what follows it too, until its receive is posted.
  static constexpr std::size_t kLongestKept = std::size_t{64} << 10;
  static constexpr std::size_t kMostKept = std::size_t{1} << 20;  // bytes in all, with headers

  // Throws PeerLostError when a longer message is here already.
  void post(const host::MessageKey& key, std::span<std::byte> into, TcpOutstanding* owner);
  // What comes for it is dropped.
  void withdraw(const TcpOutstanding* owner) noexcept;
  // Reads what is there; true if that was something. Empty when the connection is over, and why:
  // "" if the other end closed it between two messages. Throws PeerLostError for malformed bytes.
  std::optional<bool> read(int socket, std::string& why);
  void fail(Rank peer) noexcept;

  std::deque<Bytes>& notes() noexcept { return notes_; }
  // A receive waits for what has not come.
  bool awaited() const noexcept;
  // Nothing more is read before another receive is posted.
  bool blocked() const noexcept { return step_ == Step::kUnposted; }

 private:
  enum class Step { kHeader, kUnposted, kBody, kEnd };

  struct Receive {
    host::MessageKey key;
    std::span<std::byte> into;  // without memory: dropped
    std::size_t expected = 0;
    TcpOutstanding* owner = nullptr;
  };
  struct Kept {
    host::MessageKey key;
    Bytes bytes;
    bool whole = false;
  };

  // Goes on with the bytes that are here; false when it needs others.
  bool advance();
  bool take_header();
  bool find_place();
  bool take_body();
  void end_message(bool whole);
  // The receive for a message of this many bytes.
  std::optional<Receive> take_posted(const host::MessageKey& key, std::size_t bytes);
  static void check_length(const Receive& receive, std::size_t bytes);
  static void deliver(const Receive& receive, std::span<const std::byte> bytes, bool whole);
  static void finish(const Receive& receive, std::size_t bytes, bool whole) noexcept;
  std::optional<std::size_t> fill(int socket, std::string& why);

  std::span<const std::byte> staged() const noexcept {
    return std::span(stage_).subspan(begin_, end_ - begin_);
  }

  std::deque<Receive> posted_;
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  std::deque<Bytes> notes_;

  Step step_ = Step::kHeader;
  TcpMessageHeader header_;
  std::optional<Receive> current_;     // goes to its memory
  Bytes body_;                         // or here
  std::size_t taken_ = 0;              // bytes of the body
  std::vector<std::byte> nowhere_;     // what is dropped
  std::array<std::byte, 4096> stage_;  // read ahead: small messages come with one call
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t offered_ = 0;  // to the last system call
};

}  // namespace hvd::engine
