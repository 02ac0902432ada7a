#include "horovod_cpp/data/example_random.h"

namespace hvd {
namespace data {
namespace {

// Word `position` of a seed's stream, as the seed of another stream.
std::uint64_t derived_seed(std::uint64_t seed, std::int64_t position) {
  Generator generator;
  generator.set_state({seed, static_cast<std::uint64_t>(position)});
  return generator.below(std::uint64_t{1} << 63);
}

}  // namespace

Generator example_generator(std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
  return Generator(derived_seed(derived_seed(seed, epoch), index));
}

}  // namespace data
}  // namespace hvd
