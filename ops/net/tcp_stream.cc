#include "ops/net/tcp_stream.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kBytesAt = 24;  // where a header has its number of bytes
constexpr std::size_t kZeroBytes = std::size_t{16} << 10;
constexpr std::array<std::byte, kZeroBytes> kZeros{};
constexpr std::size_t kDropBytes = std::size_t{64} << 10;
constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 48;
constexpr std::size_t kRegions = 8;  // of one system call

std::array<std::byte, kMessageHeaderBytes> encode(const TcpMessageHeader& header) {
  std::array<std::byte, kMessageHeaderBytes> bytes;
  std::byte* to = bytes.data();
  const auto put = [&to](const auto& value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  put(header.key.set);
  put(header.key.operation);
  put(header.key.stage);
  put(header.kind);
  put(header.bytes);
  return bytes;
}

// Empty messages take memory too.
constexpr std::size_t size_of_kept(std::size_t bytes) {
  return kMessageHeaderBytes + bytes;
}

TcpMessageHeader decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  TcpMessageHeader header;
  header.key.set = in.get<std::uint64_t>();
  header.key.operation = in.get<std::uint64_t>();
  header.key.stage = in.get<std::uint32_t>();
  header.kind = static_cast<TcpMessageKind>(in.get<std::uint32_t>());
  header.bytes = in.get<std::uint64_t>();
  const bool is_note = header.kind == TcpMessageKind::kNote;
  if (!is_note && header.kind != TcpMessageKind::kData) {
    ByteReader::malformed("unknown kind of message");
  }
  if (header.bytes > (is_note ? TcpReceivingStream::kLongestKept : kLongestMessage)) {
    ByteReader::malformed("message too long");
  }
  return header;
}

}  // namespace

std::span<const std::byte> TcpSendingStream::Frame::at(std::size_t offset) const {
  if (offset < header.size()) return std::span(header).subspan(offset);
  offset -= header.size();
  if (offset == bytes) return {&whole, 1};
  if (data != nullptr) return {data + offset, bytes - offset};
  return std::span(kZeros).first(std::min(kZeros.size(), bytes - offset));
}

void TcpSendingStream::post(const TcpMessageHeader& header, std::span<const std::byte> data,
                            TcpOutstanding* owner) {
  frames_.push_back({encode(header), data.data(), data.size(), owner, {}});
  if (owner == nullptr) ++unowned_;
}

void TcpSendingStream::post_note(Bytes note) {
  post({{}, TcpMessageKind::kNote, note.size()}, note, nullptr);
  frames_.back().note = std::move(note);  // moving it leaves the bytes where they are
}

void TcpSendingStream::withdraw(const TcpOutstanding* owner) noexcept {
  for (Frame& frame : frames_) {
    if (frame.owner != owner) continue;
    const bool on_its_way = &frame == &frames_.front() && sent_ > 0;
    if (!on_its_way) {
      frame.bytes = 0;
      std::memset(frame.header.data() + kBytesAt, 0, sizeof(std::uint64_t));
    }
    frame.data = nullptr;
    frame.owner = nullptr;
    frame.whole = std::byte{0};
    ++unowned_;
  }
}

std::optional<bool> TcpSendingStream::write(int socket, std::string& why) {
  bool any = false;
  while (!frames_.empty()) {
    std::array<iovec, kRegions> regions;
    std::size_t count = 0;
    std::size_t offered = 0;
    std::size_t offset = sent_;
    for (auto frame = frames_.begin(); frame != frames_.end() && count < kRegions; ++frame) {
      for (; offset < frame->total() && count < kRegions; ++count) {
        const auto region = frame->at(offset);
        regions[count] = {const_cast<std::byte*>(region.data()), region.size()};
        offset += region.size();
        offered += region.size();
      }
      offset = 0;
    }
    const auto written = write_some(socket, std::span(regions).first(count), why);
    if (!written) return std::nullopt;
    any = any || *written > 0;
    sent_ += *written;
    while (!frames_.empty() && sent_ >= frames_.front().total()) {
      sent_ -= frames_.front().total();
      TcpOutstanding* const owner = frames_.front().owner;
      owner != nullptr ? --owner->count : --unowned_;
      frames_.pop_front();
    }
    if (*written < offered) break;
  }
  return any;
}

void TcpSendingStream::fail(Rank peer) noexcept {
  for (const Frame& frame : frames_) {
    if (frame.owner != nullptr) frame.owner->lost = peer;
  }
  frames_.clear();
  sent_ = unowned_ = 0;
}

void TcpReceivingStream::post(const host::MessageKey& key, std::span<std::byte> into,
                              TcpOutstanding* owner) {
  const Receive receive{key, into, into.size(), owner};
  const auto kept = std::ranges::find(kept_, key, &Kept::key);
  posted_.push_back(receive);
  if (kept == kept_.end()) return;
  check_length(receive, kept->bytes.size());
  posted_.pop_back();
  const Kept message = std::move(*kept);
  kept_.erase(kept);
  kept_bytes_ -= size_of_kept(message.bytes.size());
  deliver(receive, message.bytes, message.whole);
}

void TcpReceivingStream::withdraw(const TcpOutstanding* owner) noexcept {
  const auto drop = [owner](Receive& receive) {
    if (receive.owner != owner) return;
    receive.into = {};
    receive.owner = nullptr;
  };
  std::ranges::for_each(posted_, drop);
  if (current_) drop(*current_);
}

bool TcpReceivingStream::awaited() const noexcept {
  const auto is_awaited = [](const Receive& receive) { return receive.owner != nullptr; };
  return (current_ && is_awaited(*current_)) || std::ranges::any_of(posted_, is_awaited);
}

void TcpReceivingStream::fail(Rank peer) noexcept {
  if (current_) posted_.push_back(*current_);
  current_.reset();
  for (const Receive& receive : posted_) {
    if (receive.owner != nullptr) receive.owner->lost = peer;
  }
  posted_.clear();
}

std::optional<bool> TcpReceivingStream::read(int socket, std::string& why) {
  bool any = false;
  while (true) {
    while (advance()) any = true;
    if (blocked()) return any;
    const auto count = fill(socket, why);
    if (!count) return std::nullopt;
    if (*count == 0) return any;
    any = true;
    if (*count < offered_) {  // the socket has no more: the next look would find nothing
      while (advance()) {
      }
      return any;
    }
  }
}

std::optional<std::size_t> TcpReceivingStream::fill(int socket, std::string& why) {
  std::memmove(stage_.data(), stage_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  std::array<iovec, 2> regions;
  std::size_t used = 0;
  std::size_t wanted = 0;
  if (step_ == Step::kBody) {
    wanted = header_.bytes - taken_;
    std::byte* to = nullptr;
    if (!current_) {
      to = body_.data() + taken_;
    } else if (!current_->into.empty()) {
      to = current_->into.data() + taken_;
    } else {
      nowhere_.resize(kDropBytes);
      wanted = std::min(wanted, kDropBytes);
      to = nowhere_.data();
    }
    regions[used++] = {to, wanted};
  }
  // What is dropped ends in the stage only if all of it fits.
  const bool is_rest = step_ != Step::kBody || wanted == header_.bytes - taken_;
  if (is_rest) regions[used++] = {stage_.data() + end_, stage_.size() - end_};
  offered_ = 0;
  for (std::size_t i = 0; i < used; ++i) offered_ += regions[i].iov_len;
  const auto got = read_some(socket, std::span(regions).first(used), why);
  if (!got) {
    const bool in_between = step_ == Step::kHeader && end_ == 0;
    if (why.empty() && !in_between) why = "closed in the middle of a message";
    return std::nullopt;
  }
  const std::size_t direct = std::min(*got, wanted);
  taken_ += direct;
  end_ += *got - direct;
  return got;
}

bool TcpReceivingStream::advance() {
  switch (step_) {
    case Step::kHeader:
      return take_header();
    case Step::kUnposted:
      return find_place();
    case Step::kBody:
      return take_body();
    case Step::kEnd:
      if (begin_ == end_) return false;
      end_message(stage_[begin_++] != std::byte{0});
      return true;
  }
  return false;
}

bool TcpReceivingStream::take_header() {
  if (end_ - begin_ < kMessageHeaderBytes) return false;
  header_ = decode(staged().first(kMessageHeaderBytes));
  begin_ += kMessageHeaderBytes;
  step_ = Step::kUnposted;
  return true;
}

bool TcpReceivingStream::find_place() {
  if (header_.kind == TcpMessageKind::kData) current_ = take_posted(header_.key, header_.bytes);
  if (!current_) {
    const bool fits =
        header_.bytes <= kLongestKept && kept_bytes_ + size_of_kept(header_.bytes) <= kMostKept;
    if (header_.kind == TcpMessageKind::kData && !fits) return false;
    body_.resize(header_.bytes);
  }
  taken_ = 0;
  step_ = Step::kBody;
  return true;
}

bool TcpReceivingStream::take_body() {
  const std::size_t count = std::min(end_ - begin_, header_.bytes - taken_);
  std::byte* to = nullptr;
  if (!current_) to = body_.data();
  if (current_ && !current_->into.empty()) to = current_->into.data();
  if (to != nullptr && count > 0) std::memcpy(to + taken_, stage_.data() + begin_, count);
  begin_ += count;
  taken_ += count;
  if (taken_ < header_.bytes) return false;
  step_ = Step::kEnd;
  return true;
}

void TcpReceivingStream::end_message(bool whole) {
  step_ = Step::kHeader;
  if (current_) return finish(*std::exchange(current_, std::nullopt), header_.bytes, whole);
  if (header_.kind == TcpMessageKind::kNote) {
    notes_.push_back(std::exchange(body_, {}));
  } else if (const auto receive = take_posted(header_.key, header_.bytes)) {  // meanwhile
    deliver(*receive, body_, whole);
  } else {
    kept_bytes_ += size_of_kept(header_.bytes);
    kept_.push_back({header_.key, std::exchange(body_, {}), whole});
  }
}

std::optional<TcpReceivingStream::Receive> TcpReceivingStream::take_posted(
    const host::MessageKey& key, std::size_t bytes) {
  const auto found = std::ranges::find(posted_, key, &Receive::key);
  if (found == posted_.end()) return std::nullopt;
  check_length(*found, bytes);  // one that is too long leaves its receive waiting
  const Receive receive = *found;
  posted_.erase(found);
  return receive;
}

void TcpReceivingStream::check_length(const Receive& receive, std::size_t bytes) {
  if (bytes <= receive.expected) return;
  throw PeerLostError(
      str_cat("sent a message of ", bytes, " bytes where ", receive.expected, " were expected"));
}

void TcpReceivingStream::deliver(const Receive& receive, std::span<const std::byte> bytes,
                                 bool whole) {
  if (!receive.into.empty()) std::ranges::copy(bytes, receive.into.begin());
  finish(receive, bytes.size(), whole);
}

void TcpReceivingStream::finish(const Receive& receive, std::size_t bytes, bool whole) noexcept {
  if (receive.owner == nullptr) return;
  --receive.owner->count;
  if (!whole || bytes != receive.expected) receive.owner->complete = false;
}

}  // namespace hvd::engine
