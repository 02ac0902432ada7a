#pragma once

#include <cstdint>

#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace data {

// The generator of example `index` in pass `epoch`: a function of the three numbers alone, whatever
// thread or rank loads the example.
Generator example_generator(std::uint64_t seed, std::int64_t epoch, std::int64_t index);

// While it lives, this thread's default_generator() is the one of an example, and afterwards again
// what it was.
class ExampleRandomness {
 public:
  ExampleRandomness(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
      : outside_(default_generator().state()) {
    default_generator() = example_generator(seed, epoch, index);
  }
  ~ExampleRandomness() { default_generator().set_state(outside_); }
  ExampleRandomness(const ExampleRandomness&) = delete;
  ExampleRandomness& operator=(const ExampleRandomness&) = delete;

 private:
  Generator::State outside_;
};

}  // namespace data
}  // namespace hvd
