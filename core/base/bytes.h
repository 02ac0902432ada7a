#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"

namespace hvd {

using Bytes = std::vector<std::byte>;

// Appends fixed-width little-endian numbers and length-prefixed strings to a byte vector.
//
// Writer and reader have the same members for the fields of a message, so that one function serves
// both directions: serialize(Io& io, Fields<Io, Message>& message).
class ByteWriter {
 public:
  static constexpr bool kReads = false;

  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> || std::is_floating_point_v<T>
  void put(T value) {
    const std::size_t at = out_.size();
    out_.resize(at + sizeof value);
    std::memcpy(out_.data() + at, &value, sizeof value);
  }
  // All of them, without their count.
  template <typename T>
  requires std::is_integral_v<T>
  void put_all(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    out_.insert(out_.end(), first, first + text.size());
  }
  void put_duration(Duration duration) {
    put(std::int64_t{std::chrono::nanoseconds(duration).count()});
  }
  void put_time(TimePoint time) { put_duration(time.time_since_epoch()); }
  void put_flag(bool flag) { put(static_cast<std::uint8_t>(flag ? 1 : 0)); }

  // -- for serialize()
  void number(auto value) { put(value); }
  void choice(auto value, unsigned /*count*/) { put(value); }
  void flag(bool value) { put_flag(value); }
  void text(std::string_view value) { put_string(value); }
  void duration(Duration value) { put_duration(value); }
  void time(TimePoint value) { put_time(value); }
  void numbers(const auto& values) {
    put(static_cast<std::uint32_t>(values.size()));
    put_all(std::span(values));
  }
  void bytes(std::span<const std::byte> value) {
    put(static_cast<std::uint32_t>(value.size()));
    out_.insert(out_.end(), value.begin(), value.end());
  }
  void list(const auto& items, std::size_t /*bytes_each*/, const auto& each) {
    put(static_cast<std::uint32_t>(items.size()));
    for (const auto& item : items) each(item);
  }

 private:
  Bytes& out_;
};

// Reads what ByteWriter wrote. Every read is checked; a short or malformed message throws
// Error{kTransport}, whatever the bytes are.
class ByteReader {
 public:
  static constexpr bool kReads = true;

  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  template <typename T>
  requires std::is_integral_v<T> || std::is_floating_point_v<T> T get() {
    need(sizeof(T));
    T value;
    std::memcpy(&value, in_.data(), sizeof value);
    in_ = in_.subspan(sizeof value);
    return value;
  }
  // As many as `values` has.
  template <typename T>
  requires std::is_integral_v<T>
  void get_all(std::span<T> values) {
    if (values.empty()) return;
    need(values.size_bytes());
    std::memcpy(values.data(), in_.data(), values.size_bytes());
    in_ = in_.subspan(values.size_bytes());
  }
  // A byte that is 0 or 1.
  bool get_flag() {
    const auto flag = get<std::uint8_t>();
    if (flag > 1) malformed("flag out of range");
    return flag == 1;
  }
  // An enum whose valid values are 0 .. count-1.
  template <typename E>
  requires std::is_enum_v<E> E get_enum(unsigned count) {
    const auto raw = get<std::underlying_type_t<E>>();
    if (static_cast<std::uint64_t>(raw) >= count) malformed("enum value out of range");
    return static_cast<E>(raw);
  }
  std::string get_string() {
    const auto length = get<std::uint32_t>();
    need(length);
    std::string text(reinterpret_cast<const char*>(in_.data()), length);
    in_ = in_.subspan(length);
    return text;
  }
  // At most some 30 years, so that sums of a few do not overflow.
  TimePoint get_time() {
    constexpr std::int64_t kLimit = 1'000'000'000'000'000'000;
    const auto count = get<std::int64_t>();
    if (count < -kLimit || count > kLimit) malformed("a time out of range");
    return TimePoint(std::chrono::nanoseconds(count));
  }
  Duration get_duration() {
    const Duration duration = get_time().time_since_epoch();
    if (duration < Duration::zero()) malformed("a negative duration");
    return duration;
  }
  // A count of items that take at least `bytes_each`: a lie fails here, before anyone allocates.
  std::size_t get_count(std::size_t bytes_each) {
    const auto count = get<std::uint32_t>();
    if (bytes_each != 0 && count > in_.size() / bytes_each) malformed("count larger than message");
    return count;
  }
  // -- for serialize()
  template <typename T>
  void number(T& value) {
    value = get<T>();
  }
  template <typename E>
  void choice(E& value, unsigned count) {
    value = get_enum<E>(count);
  }
  void flag(bool& value) { value = get_flag(); }
  void text(std::string& value) { value = get_string(); }
  void duration(Duration& value) { value = get_duration(); }
  void time(TimePoint& value) { value = get_time(); }
  template <typename Numbers>
  void numbers(Numbers& values) {
    values.resize(get_count(sizeof(typename Numbers::value_type)));
    get_all(std::span(values));
  }
  void bytes(Bytes& value) {
    const std::size_t count = get_count(1);
    const auto taken = in_.first(count);
    value.assign(taken.begin(), taken.end());
    in_ = in_.subspan(count);
  }
  void list(auto& items, std::size_t bytes_each, const auto& each) {
    items.clear();
    for (std::size_t left = get_count(bytes_each); left > 0; --left) each(items.emplace_back());
  }

  std::size_t remaining() const { return in_.size(); }
  void expect_end() const {
    if (!in_.empty()) malformed("trailing bytes");
  }
  [[noreturn]] static void malformed(const char* why) {
    throw PeerLostError(std::string("malformed control message: ") + why);
  }

 private:
  void need(std::size_t bytes) const {
    if (in_.size() < bytes) malformed("truncated");
  }
  std::span<const std::byte> in_;
};

// What is filled in by a reader, and left as it is by a writer.
template <typename Io, typename T>
using Fields = std::conditional_t<Io::kReads, T, const T>;

template <typename T>
T deserialize(ByteReader& in) {
  T message;
  serialize(in, message);
  return message;
}

// 64 bits that tell whether two ranks have the same bytes; as fast as memory is read. Buffers of
// one size that differ in one aligned word of 8 bytes always have different hashes. Not for keys,
// nor against someone who wants two buffers to look alike. Equal on machines of one byte order.
// Pure.
std::uint64_t content_hash(std::span<const std::byte> bytes);

}  // namespace hvd
