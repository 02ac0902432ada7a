#pragma once

#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/base/bytes.h"

// Structs as bytes: the members that M::kFields lists, in that order.
namespace hvd {

// How many values of an enum may be sent.
template <typename E>
inline constexpr unsigned kValues = 0;

template <typename M>
void put_fields(ByteWriter& writer, const M& it) {
  const auto put = [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      writer.put_string(value);
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      writer.put_time(value);
    } else {
      writer.put(value);
    }
  };
  std::apply([&](auto... field) { (put(it.*field), ...); }, M::kFields);
}

// Throws PeerLostError for bytes that put_fields() did not write.
template <typename M>
M get_fields(ByteReader& reader) {
  M it;
  const auto get = [&]<typename T>(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = reader.get_string();
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      value = reader.get_time();
    } else if constexpr (std::is_same_v<T, bool>) {
      value = reader.get_flag();
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(kValues<T> > 0, "say how many values it has");
      value = reader.get_enum<T>(kValues<T>);
    } else {
      value = reader.get<T>();
    }
  };
  std::apply([&](auto... field) { (get(it.*field), ...); }, M::kFields);
  return it;
}

template <typename M>
Bytes encode_fields(const M& it) {
  Bytes bytes;
  bytes.reserve(64);  // without it g++ 12 warns falsely of a write past the end (array-bounds)
  ByteWriter writer(bytes);
  put_fields(writer, it);
  return bytes;
}

// Of all of `bytes`.
template <typename M>
M decode_fields(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  M it = get_fields<M>(reader);
  reader.expect_end();
  return it;
}

// Where texts are what travels.
inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> to_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace hvd
