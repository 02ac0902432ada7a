#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "core/config/config.h"

namespace hvd {

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

}  // namespace hvd
