#pragma once

#include <random>

#include "test/support/protocol_program.h"

namespace hvd::engine::test {

template <typename T>
const T& pick(const std::vector<T>& from, std::mt19937& random) {
  return from[random() % from.size()];
}

// A tree of 2 to 7 ranks, as for trees_of().
std::vector<Rank> random_parents(std::mt19937& random);

// A job that ends: up to three process sets beside the world (overlapping or not, some removed),
// in each of them a few names of every kind of collective, groups among them, and up to three
// epochs in which ranks run out of data at different points; now and then ranks disagree.
Program random_program(int size, std::mt19937& random);

// Few slots, little credit, traffic about stalls that do not last.
NegotiationSettings random_settings(std::mt19937& random);

}  // namespace hvd::engine::test
