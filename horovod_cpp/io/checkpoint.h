#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "horovod_cpp/io/safetensors.h"

namespace hvd::io {

// All that a run needs to go on, in one file:
//
//   io::save_checkpoint("run.safetensors",
//                       {.parts = {{"model", model.state_dict()},
//                                  {"optimizer", optimizer.state_dict()},
//                                  {"schedule", schedule.state_dict()},
//                                  {"sampler", io::integers({{"epoch", epoch}, {"position", n}})},
//                                  {"random", {{"state", get_rng_state()}}}}});
//
//   auto checkpoint = io::load_checkpoint("run.safetensors");
//   model.load_state_dict(checkpoint.part("model"));
//   ...
//   set_rng_state(checkpoint.tensor("random", "state"));
//
// A run that goes on from there equals one that was never interrupted, bit for bit. With several
// ranks, one saves what is equal on all of them; each rank saves what differs (random state,
// sampler) in a file or a part of its own.
struct Checkpoint {
  std::map<std::string, NamedTensors> parts;  // by name, in any number
  Metadata metadata = {};

  // Throw InvalidArgumentError naming what is missing and what there is.
  const NamedTensors& part(const std::string& name) const;
  const Tensor& tensor(const std::string& part, const std::string& name) const;
};

// A safetensors file (see save()) in which tensor `name` of part `part` is called "<part>.<name>",
// with a checksum of everything in its metadata. Complete or absent, whatever happens to the
// process. Throws InvalidArgumentError as save() does, and on a part name that is empty or has a
// '.' in it.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Reads what save_checkpoint() wrote. Whatever was altered, cut or exchanged since throws
// InvalidArgumentError naming the path and the tensor and its place, or how the file is broken, as
// does a file without checksums. Parts without tensors are left out.
Checkpoint load_checkpoint(const std::string& path);

// int64 scalars by name: counters and seeds as a part of a checkpoint. Bits of unsigned numbers go
// through std::bit_cast.
NamedTensors integers(const std::map<std::string, std::int64_t>& values);
// Back. Throws InvalidArgumentError naming an entry that is no int64 scalar.
std::map<std::string, std::int64_t> integers_from(const NamedTensors& tensors);

}  // namespace hvd::io
