#include "ops/connect/introduction.h"

#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/build_identity.h"
#include "ops/shm/data_segment.h"
#include "ops/shm/mailboxes.h"

namespace hvd {

Bytes encode(const RendezvousHello& hello) {
  Bytes bytes;
  bytes.reserve(kRendezvousHelloBytes);
  ByteWriter writer(bytes);
  writer.put(hello.size);
  writer.put(hello.process);
  return bytes;
}

RendezvousHello decode_rendezvous_hello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  RendezvousHello hello;
  hello.size = reader.get<std::int32_t>();
  hello.process = reader.get<std::int64_t>();
  reader.expect_end();
  return hello;
}

namespace {

// Every version begins with these numbers and the build, so that each can name the other; only
// what follows may change.
constexpr std::uint64_t kMagic = 0x6f72746e69647668;  // "hvdintro"
constexpr std::uint32_t kVersion = 1;                 // of the beginning

constexpr std::size_t kLeastValue = 2 * sizeof(std::uint32_t);  // bytes of a name and a value

std::string get_build(ByteReader& reader) {
  if (reader.get<std::uint64_t>() != kMagic || reader.get<std::uint32_t>() != kVersion) {
    ByteReader::malformed("it does not begin like one");
  }
  return reader.get_string();
}

std::string name_of_build(const std::string& text) {
  try {
    ByteReader reader(std::as_bytes(std::span(text)));
    return get_build(reader);
  } catch (const PeerLostError&) {
    return "another one, which does not say its version";  // those before this began otherwise
  }
}

void expect_one_build(std::span<const std::string> texts) {
  std::map<std::string, std::vector<Rank>> ranks_of;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    ranks_of[name_of_build(texts[rank])].push_back(static_cast<Rank>(rank));
  }
  if (ranks_of.size() == 1) return;
  std::string builds;
  for (const auto& [build, ranks] : ranks_of) {
    builds += (builds.empty() ? "" : "; ") + build + " on rank(s) " + number_ranges(ranks, ", ");
  }
  throw UnsupportedError(
      "the ranks run different builds of horovod_cpp, which share no memory layouts and "
      "messages: " +
      builds + ". Install the same one for all ranks, made from the same sources");
}

Introduction decode_introduction(const std::string& text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  Introduction introduction;
  introduction.build = get_build(reader);
  introduction.host = reader.get_string();
  introduction.identity = reader.get_string();
  introduction.process.pid = static_cast<pid_t>(reader.get<std::int64_t>());
  introduction.process.start_time = reader.get<std::uint64_t>();
  const std::size_t values = reader.get_count(kLeastValue);
  for (std::size_t i = 0; i < values; ++i) {
    std::string name = reader.get_string();
    introduction.chosen[std::move(name)] = reader.get_string();
  }
  reader.expect_end();
  return introduction;
}

}  // namespace

std::string build_and_layout() {
  constexpr ShmLimits kLimits;
  std::string text = std::string(build_identity()) + " (layout ";
  text += std::endian::native == std::endian::little ? "little" : "big";
  for (const std::size_t size :
       {sizeof(std::size_t), sizeof(RankSlot), sizeof(ByteRingState), sizeof(LaneProgress),
        kLimits.lanes, kLimits.chunk_bytes, kLimits.small_bytes, kLimits.sets}) {
    text += "-" + std::to_string(size);
  }
  return text + ")";
}

std::string encode(const Introduction& introduction) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put_string(introduction.build);
  writer.put_string(introduction.host);
  writer.put_string(introduction.identity);
  writer.put(static_cast<std::int64_t>(introduction.process.pid));
  writer.put(introduction.process.start_time);
  writer.put(static_cast<std::uint32_t>(introduction.chosen.size()));
  for (const auto& [name, value] : introduction.chosen) {
    writer.put_string(name);
    writer.put_string(value);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<Introduction> decode_introductions(std::span<const std::string> texts) {
  expect_one_build(texts);
  std::vector<Introduction> introductions;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    try {
      introductions.push_back(decode_introduction(texts[rank]));
    } catch (const PeerLostError& error) {
      throw PeerLostError("the introduction of rank " + std::to_string(rank) + ": " + error.what());
    }
  }
  return introductions;
}

}  // namespace hvd
