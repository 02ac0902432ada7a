#include "ops/net/handshake.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/system/host.h"
#include "ops/net/secret.h"

namespace hvd::engine {
namespace {

constexpr std::uint32_t kMagic = 0x48445648;  // "HVDH"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kQuoted = 24;  // characters of what something else said
// What every version of a hello and a welcome begins with: the magic, its version, and the service
// or the outcome.
constexpr std::size_t kPrefixBytes = sizeof kMagic + sizeof kVersion + sizeof(std::uint16_t);

Sha256Digest derive(std::span<const std::byte> key, std::string_view label, std::uint64_t number) {
  Bytes message;
  ByteWriter out(message);
  out.put_string(label);
  out.put(number);
  return hmac_sha256(key, message);
}

std::string quote(std::span<const std::byte> bytes) {
  std::string quoted = "'";
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kQuoted))) {
    const auto c = static_cast<unsigned char>(byte);
    quoted += std::isprint(c) != 0 ? static_cast<char>(c) : '.';
  }
  return quoted + "'";
}

std::string other_version(std::uint16_t theirs) {
  return str_cat("is of another build of horovod_cpp: its handshake is version ", theirs,
                 ", this one's ", kVersion, "; install the same on all machines");
}

}  // namespace

Handshake::Handshake(std::span<const std::byte> key, const Terms& terms, Step first)
    : terms_(terms),
      job_(derive(key, "horovod_cpp job", 0)),
      key_(derive(job_, "horovod_cpp epoch", terms.epoch)),
      step_(first) {}

Handshake Handshake::caller(std::span<const std::byte> key, const Terms& terms, std::int32_t from) {
  Handshake handshake(key, terms, Step::kWelcome);
  handshake.from_ = from;
  Bytes hello;
  hello.reserve(kHelloBytes);
  ByteWriter out(hello);
  out.put(kMagic);
  out.put(kVersion);
  out.put(terms.service);
  out.put(terms.epoch);
  out.put(from);
  out.put(terms.to);
  std::array<std::byte, kNonceBytes> nonce;
  draw_random(nonce);
  hello.insert(hello.end(), nonce.begin(), nonce.end());
  handshake.all_ = hello;
  handshake.output_ = std::move(hello);
  return handshake;
}

Handshake Handshake::listener(std::span<const std::byte> key, const Terms& terms, Admits admits) {
  Handshake handshake(key, terms, Step::kHello);
  handshake.admits_ = std::move(admits);
  return handshake;
}

std::size_t Handshake::wanted() const noexcept {
  switch (step_) {
    case Step::kHello:
      return kHelloBytes;
    case Step::kWelcome:
      return kWelcomeBytes;
    case Step::kConfirm:
      return kConfirmBytes;
  }
  return 0;
}

// Every byte counts: something else may say less than a hello and wait.
bool Handshake::is_foreign() const {
  if (step_ == Step::kConfirm) return false;
  const std::size_t seen = std::min(received_.size(), sizeof kMagic);
  return std::memcmp(received_.data(), &kMagic, seen) != 0;
}

std::size_t Handshake::take(std::span<const std::byte> bytes) {
  std::size_t used = 0;
  while (state_ == State::kGoing && used < bytes.size()) {
    const auto more =
        bytes.subspan(used, std::min(wanted() - received_.size(), bytes.size() - used));
    received_.insert(received_.end(), more.begin(), more.end());
    used += more.size();
    if (is_foreign()) {
      fail(Fault::kForeign, "speaks another protocol: " + quote(received_));
    } else if (step_ != Step::kConfirm && received_.size() >= kPrefixBytes) {
      std::uint16_t version = 0;
      std::memcpy(&version, received_.data() + sizeof kMagic, sizeof version);
      if (version != kVersion) {
        if (step_ == Step::kHello) welcome(Outcome::kOtherVersion);
        fail(Fault::kVersion, other_version(version));
      }
    }
    if (state_ != State::kGoing || received_.size() < wanted()) continue;
    if (step_ == Step::kHello) {
      take_hello();
    } else if (step_ == Step::kWelcome) {
      take_welcome();
    } else {
      take_confirm();
    }
    received_.clear();
  }
  return state_ == State::kFailed ? bytes.size() : used;
}

void Handshake::take_hello() {
  all_ = received_;
  ByteReader in(std::span<const std::byte>(received_).subspan(sizeof kMagic + sizeof kVersion));
  const auto service = static_cast<HandshakeService>(in.get<std::uint16_t>());
  const auto epoch = in.get<std::uint64_t>();
  from_ = in.get<std::int32_t>();
  const auto to = in.get<std::int32_t>();
  Outcome outcome = Outcome::kWelcome;
  if (service != terms_.service && service != terms_.also) {
    outcome = Outcome::kOtherService;
  } else if (epoch != terms_.epoch) {
    outcome = Outcome::kOtherEpoch;
  } else if (to != terms_.to) {
    outcome = Outcome::kOtherListener;
  } else if (admits_ && !admits_(from_, service)) {
    outcome = Outcome::kNotWanted;
  }
  welcome(outcome);
  if (outcome != Outcome::kWelcome) {
    return fail(Fault::kRefused, str_cat("says that it is number ", from_, " and looks for number ",
                                         to, " at epoch ", epoch, ": it is not expected here"));
  }
  terms_.service = service;
  step_ = Step::kConfirm;
}

// Answers any hello. To a peer without the key it says nothing that helps: a tag over
// two numbers that never come again.
void Handshake::welcome(Outcome outcome) {
  ByteWriter out(output_);
  out.put(kMagic);
  out.put(kVersion);
  out.put(outcome);
  out.put(terms_.epoch);
  std::array<std::byte, kNonceBytes> nonce;
  draw_random(nonce);
  output_.insert(output_.end(), nonce.begin(), nonce.end());
  all_.insert(all_.end(), output_.begin(), output_.end());
  const Sha256Digest mine = tag('b');
  output_.insert(output_.end(), mine.begin(), mine.end());
  all_.insert(all_.end(), mine.begin(), mine.end());
}

void Handshake::take_welcome() {
  const std::span<const std::byte> head =
      std::span<const std::byte>(received_).first(kWelcomeBytes - sizeof(Sha256Digest));
  const auto theirs = std::span<const std::byte>(received_).subspan(head.size());
  ByteReader in(head.subspan(sizeof kMagic + sizeof kVersion));
  const auto outcome = static_cast<Outcome>(in.get<std::uint16_t>());
  const auto epoch = in.get<std::uint64_t>();
  if (outcome == Outcome::kOtherEpoch) key_ = derive(job_, "horovod_cpp epoch", epoch);
  all_.insert(all_.end(), head.begin(), head.end());
  if (!same_secret(theirs, tag('b'))) {
    return fail(Fault::kKey, "does not know the key of this job: it is of another one");
  }
  all_.insert(all_.end(), theirs.begin(), theirs.end());
  if (outcome != Outcome::kWelcome) return fail(Fault::kRefused, refusal(outcome, epoch));
  const Sha256Digest mine = tag('a');
  output_.insert(output_.end(), mine.begin(), mine.end());
  done();
}

std::string Handshake::refusal(Outcome outcome, std::uint64_t epoch) const {
  switch (outcome) {
    case Outcome::kOtherService:
      return "is of this job, but listens for something else";
    case Outcome::kOtherEpoch:
      return str_cat("is at epoch ", epoch, " of this job, and this end at epoch ", terms_.epoch);
    case Outcome::kOtherListener:
      return "is of this job, but is not number " + std::to_string(terms_.to);
    default:
      return "is of this job and does not expect number " + std::to_string(from_);
  }
}

void Handshake::take_confirm() {
  if (same_secret(received_, tag('a'))) return done();
  fail(Fault::kKey, "does not know the key of this job");
}

Sha256Digest Handshake::tag(char role) const noexcept {
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(&role, 1)),
                                                           all_};
  return hmac_sha256(key_, parts);
}

void Handshake::fail(Fault fault, std::string why) {
  state_ = State::kFailed;
  fault_ = fault;
  why_ = std::move(why);
}

}  // namespace hvd::engine
