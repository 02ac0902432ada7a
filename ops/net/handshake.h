#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/bytes.h"
#include "ops/net/secret.h"

// How every connection of a job begins: both ends prove that they know the job's key, without
// saying it.
//
//   caller   -> listener  hello    version, service, epoch, from, to, nonce a
//   listener -> caller    welcome  outcome, epoch, nonce b, HMAC(key_e, "b" | all so far)
//   caller   -> listener  confirm  HMAC(key_e, "a" | all so far)
//
// key_e = HMAC(job key, epoch). A refusal is a welcome with another outcome, and as authentic.
// After it the stream belongs to the caller's and the listener's own protocol, which is neither
// encrypted nor authenticated: whoever can alter what the network carries can alter that.
namespace hvd::engine {

// The listeners of a job may share a key: what was said to one proves nothing to another.
enum class HandshakeService : std::uint16_t {
  kControl = 1,
  kRendezvous = 2,
  kRunner = 3,
  kData = 4
};

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kHelloBytes = 24 + kNonceBytes;
inline constexpr std::size_t kWelcomeBytes = 16 + kNonceBytes + sizeof(Sha256Digest);
inline constexpr std::size_t kConfirmBytes = sizeof(Sha256Digest);

// One end of one handshake, without a socket: bytes in, bytes out. It keeps no more than
// kWelcomeBytes of what the other end says. Time limits are its owner's. Not thread-safe.
class Handshake {
 public:
  enum class State { kGoing, kDone, kFailed };
  enum class Fault {
    kNone,
    kForeign,  // the other end speaks another protocol
    kVersion,  // or another version of this one
    kKey,      // it does not know the job's key
    kRefused,  // it knows the key and does not want this connection (told to callers only), or
               // this end, a listener, did not want it
  };
  // What the two ends agree on besides the key.
  struct Terms {
    HandshakeService service = HandshakeService::kControl;
    std::uint64_t epoch = 0;
    std::int32_t to = 0;  // the listener
    // What a listener serves besides.
    std::optional<HandshakeService> also = {};
  };
  // Whether a listener wants a connection of `from`, which is not proven yet, for one of its
  // services; a function so that it is asked before the caller is welcomed.
  using Admits = std::function<bool(std::int32_t from, HandshakeService service)>;

  // `key` may have any length; only what is derived from it is kept. Both throw InternalError if
  // the system has no random numbers.
  static Handshake caller(std::span<const std::byte> key, const Terms& terms, std::int32_t from);
  static Handshake listener(std::span<const std::byte> key, const Terms& terms, Admits admits);

  // Takes bytes that came and returns how many were used: what follows them, once it is kDone, is
  // the first that the other end says in its own protocol. When it is kFailed all are used.
  std::size_t take(std::span<const std::byte> bytes);
  // What is to be sent now, once. Also what a handshake that failed still has to say; then the
  // connection is to be closed.
  Bytes take_output() { return std::exchange(output_, {}); }

  // Bytes of the other end's until it says something else: a reader that takes no more at a time
  // keeps none of what follows the handshake.
  std::size_t missing() const noexcept { return wanted() - received_.size(); }

  State state() const noexcept { return state_; }
  // A listener has welcomed the caller, which may take the handshake as done.
  bool awaits_confirm() const noexcept {
    return state_ == State::kGoing && step_ == Step::kConfirm;
  }
  Fault fault() const noexcept { return fault_; }
  // Why it failed, to follow the name of the other end: "does not know the key of this job".
  const std::string& why() const noexcept { return why_; }
  // Who called. Proven once it is kDone; -1 before a hello came.
  std::int32_t from() const noexcept { return from_; }
  // What the caller wants. Proven as well.
  HandshakeService service() const noexcept { return terms_.service; }

 private:
  enum class Step { kHello, kWelcome, kConfirm };  // what comes next
  enum class Outcome : std::uint16_t {
    kWelcome = 0,
    kOtherVersion,
    kOtherService,
    kOtherEpoch,
    kOtherListener,
    kNotWanted,
  };

  Handshake(std::span<const std::byte> key, const Terms& terms, Step first);

  std::size_t wanted() const noexcept;
  bool is_foreign() const;
  void take_hello();
  void take_welcome();
  void take_confirm();
  std::string refusal(Outcome outcome, std::uint64_t epoch) const;
  void welcome(Outcome outcome);
  void done() noexcept { state_ = State::kDone; }
  void fail(Fault fault, std::string why);
  Sha256Digest tag(char role) const noexcept;

  Terms terms_;
  Admits admits_;
  Sha256Digest job_;  // of the job key: key_e of any epoch is derived from it
  Sha256Digest key_;  // of this epoch
  State state_ = State::kGoing;
  Fault fault_ = Fault::kNone;
  Step step_;
  std::int32_t from_ = -1;
  std::string why_;
  Bytes received_;  // of the step
  Bytes all_;       // what the tags cover
  Bytes output_;
};

}  // namespace hvd::engine
