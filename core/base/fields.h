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

// One field by a ByteWriter, or into it by a ByteReader.
template <typename Io, typename T>
void serialize_field(Io& io, T& field) {
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Value, std::string>) {
    io.text(field);
  } else if constexpr (std::is_same_v<Value, TimePoint>) {
    io.time(field);
  } else if constexpr (std::is_same_v<Value, bool>) {
    io.flag(field);
  } else if constexpr (std::is_enum_v<Value>) {
    static_assert(kValues<Value> > 0, "say how many values it has");
    io.choice(field, kValues<Value>);
  } else {
    io.number(field);
  }
}

// A ByteReader throws PeerLostError for bytes that no ByteWriter wrote.
template <typename Io, typename M>
void serialize_fields(Io& io, M& it) {
  std::apply([&](auto... field) { (serialize_field(io, it.*field), ...); }, M::kFields);
}

template <typename M>
Bytes encode_fields(const M& it) {
  Bytes bytes;
  bytes.reserve(64);  // without it g++ 12 warns falsely of a write past the end (array-bounds)
  ByteWriter writer(bytes);
  serialize_fields(writer, it);
  return bytes;
}

// Of all of `bytes`.
template <typename M>
M decode_fields(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  M it;
  serialize_fields(reader, it);
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
