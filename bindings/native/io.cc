#include "bindings/native/docs.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>

#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/io/checkpoint.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd::python {
namespace {

constexpr Arg kPath{"path", "of the file."};
constexpr Arg kMetadata{"metadata", "a dict of str to str that is stored along."};

// A part of a checkpoint: a state dict, or an object that has one. Counters may be ints.
NamedTensors part_from(const std::string& part, const py::handle& object) {
  if (py::hasattr(object, "state_dict")) return part_from(part, object.attr("state_dict")());
  if (!py::isinstance<py::iterable>(object) || py::isinstance<py::str>(object)) {
    throw py::type_error("save_checkpoint: part '" + part + "' is of type " +
                         Py_TYPE(object.ptr())->tp_name +
                         ": expected a state dict, or an object that has one; a number goes into a "
                         "dict: {\"" +
                         part + "\": {\"value\": 3}}");
  }
  NamedTensors tensors;
  for (const auto& [name, value] : py::dict(py::reinterpret_borrow<py::object>(object))) {
    const auto text = name.cast<std::string>();
    const std::string where = "save_checkpoint: '" + text + "' of part '" + part + "': ";
    if (py::isinstance<py::int_>(value) && !py::isinstance<py::bool_>(value)) {
      const auto whole = int64_from(value);
      if (!whole) throw InvalidArgumentError(where, "does not fit into int64");
      tensors.push_back(io::integers({{text, *whole}})[0]);
      continue;
    }
    try {
      tensors.emplace_back(text, tensor_from(value));
    } catch (const py::type_error& error) {
      throw py::type_error(where + error.what());
    }
  }
  return tensors;
}

using CheckpointParts =
    Typed<"collections.abc.Mapping[str, HasState | collections.abc.Mapping[str, ArrayLike | int]]">;

void bind_checkpoint(py::module_& m) {
  py::class_<io::Checkpoint>(m, "Checkpoint", "What load_checkpoint() read: parts and metadata.")
      .def_property_readonly(
          "parts",
          [](const io::Checkpoint& self) {
            py::typing::Dict<py::str, TensorDict> parts;
            for (const auto& [name, tensors] : self.parts) parts[py::str(name)] = to_dict(tensors);
            return parts;
          },
          "Dict of part name -> state dict.")
      .def(
          "part",
          [](const io::Checkpoint& self, const std::string& name) {
            return to_dict(self.part(name));
          },
          py::arg("name"),
          "The state dict of the part ``name``; InvalidArgumentError when there is none.")
      .def_readonly("metadata", &io::Checkpoint::metadata, "The metadata, a dict of str to str.");
  define(
      m, "save_checkpoint",
      [](const std::filesystem::path& path, const CheckpointParts& parts,
         const io::Metadata& metadata) {
        io::Checkpoint checkpoint{{}, metadata};
        for (const auto& [name, part] : py::dict(parts)) {
          const auto text = name.cast<std::string>();
          checkpoint.parts[text] = part_from(text, part);
        }
        const WithoutGil nogil;
        io::save_checkpoint(path.string(), checkpoint);
      },
      R"(Write all that a run needs to go on into one file, which is complete or not there.

    io.save_checkpoint("run.safetensors", {
        "model": model, "optimizer": optimizer, "schedule": schedule,
        "sampler": {"epoch": epoch, "position": batch * batch_size},  # ints: see integers_from()
        "random": {"state": io.get_rng_state()}}))",
      Arg("path",
          "safetensors file to write; tensor ``name`` of part ``part`` is called \"part.name\" in "
          "it."),
      Arg("parts",
          "dict of part name -> state dict (Tensors, arrays, ints), or an object that has one."),
      kMetadata = io::Metadata{}, Invalid{"the file cannot be written, or a name does not fit."});
}

void bind_checkpoint_reading(py::module_& m) {
  define(
      m, "load_checkpoint",
      [](const std::filesystem::path& path) {
        const WithoutGil nogil;
        return io::load_checkpoint(path.string());
      },
      "Read a file of save_checkpoint().", kPath, Returns{"A Checkpoint."},
      Invalid{"the file is missing, was cut or altered, or is not a checkpoint."});
  define(
      m, "integers_from",
      [](const StateLike& state) { return io::integers_from(named_tensors_from(state)); },
      "The ints of a part that was saved as such: {\"epoch\": 3} from {\"epoch\": Tensor}.",
      Arg("state", "name -> int64 scalar."), Returns{"A dict of str to int."},
      Invalid{"an entry is not an int64 scalar."});
}

void bind_rng_state(py::module_& m) {
  m.def(
      "get_rng_state", [] { return get_rng_state(); },
      "The state of this thread's random numbers, an int64 Tensor [2].");
  define(
      m, "set_rng_state", [](const Tensor& state) { set_rng_state(state); },
      "Go on from such a state.", Arg("state", "what get_rng_state() gave."),
      Invalid{"it is not an int64 Tensor [2]."});
}

}  // namespace

void bind_io(py::module_& m) {
  define(
      m, "save",
      [](const std::filesystem::path& path, const StateLike& state, const io::Metadata& metadata) {
        const NamedTensors tensors = named_tensors_from(state);
        const WithoutGil nogil;
        io::save(path.string(), tensors, metadata);
      },
      "Write tensors to a safetensors file, which is either complete or not there.",
      Arg("path", "file to write; one that is there is replaced at the end."),
      Arg("state", "a state dict or pairs (name, Tensor or NumPy array)."),
      kMetadata = io::Metadata{},
      Invalid{"the file cannot be written, or names repeat; the message has the path."});
  const auto load = [](const std::filesystem::path& path) {
    const WithoutGil nogil;
    return io::load(path.string());
  };
  define(
      m, "load", [load](const std::filesystem::path& path) { return to_dict(load(path).tensors); },
      "Read a safetensors file.", kPath,
      Returns{"A dict of name to Tensor, in the file's order, of the shapes and dtypes in it."},
      Invalid{"the file is missing, truncated or corrupt; the message says how."});
  define(
      m, "load_metadata", [load](const std::filesystem::path& path) { return load(path).metadata; },
      "The metadata of a safetensors file.", kPath, Returns{"A dict of str to str."},
      Invalid{"as load()."});
  bind_checkpoint(m);
  bind_checkpoint_reading(m);
  bind_rng_state(m);
}

}  // namespace hvd::python
