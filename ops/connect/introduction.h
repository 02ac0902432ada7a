#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/base/topology.h"
#include "core/config/config.h"
#include "ops/shm/process.h"

namespace hvd::engine {

// What the ranks compare before anything depends on it: a setting, or an argument of init(). Of one
// build, all ranks have the same terms, with other values perhaps.
struct Term {
  std::string name;
  std::string value;
  std::string default_value;
  Agreement agreement = Agreement::kEqual;
};

// All settings except those that are each rank's own, in the order of their table.
std::vector<Term> terms_of(const Config& config);

// What a rank tells the others: values that are not the default, by name.
using ChosenValues = std::map<std::string, std::string>;
ChosenValues chosen_values(std::span<const Term> terms);

// `by_rank`: what every rank chose; the same on all ranks, so that all throw or none. Throws
// InvalidArgumentError that names each term that has to be equal and is not, and which ranks have
// which value.
void expect_agreement(std::span<const Term> terms, std::span<const ChosenValues> by_rank);

// Puts rank 0's values in force where they hold for all ranks. Rank 0 warns of what other ranks
// chose in vain.
void adopt(Config& config, Rank rank, std::span<const Term> terms,
           std::span<const ChosenValues> by_rank);

// What a rank says to rank 0 first, once the handshake has told its number. A rank whose number or
// size cannot be gets an answer that says why, instead of a welcome.
struct RendezvousHello {
  std::int32_t size = 0;
  std::int64_t process = 0;  // for messages to people
  static constexpr auto kFields = std::tuple(&RendezvousHello::size, &RendezvousHello::process);
};

inline constexpr std::size_t kRendezvousHelloBytes = 12;

// build_identity(), and the sizes of what ranks share as this compiler laid it out.
std::string build_and_layout();

// What each rank tells the others when they meet.
struct Introduction {
  std::string build;     // build_and_layout()
  std::string host;      // its name
  std::string identity;  // tells it from others of that name
  ProcessId process;
  ChosenValues chosen;
};

std::string encode(const Introduction& introduction);

// `texts`: what encode() gave on each rank. Throws UnsupportedError, with the same text on every
// rank, unless all come from the same build of this library, of which nothing but the build is read
// then; PeerLostError that names the rank if a text is malformed.
std::vector<Introduction> decode_introductions(std::span<const std::string> texts);

}  // namespace hvd::engine
