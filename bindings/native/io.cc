#include "bindings/native/bindings.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>

#include "horovod_cpp/io/safetensors.h"

namespace hvd::python {

void bind_io(py::module_& m) {
  m.def(
      "save",
      [](const std::filesystem::path& path, const py::handle& state, const io::Metadata& metadata) {
        const NamedTensors tensors = named_tensors_from(state);
        const py::gil_scoped_release nogil;
        io::save(path.string(), tensors, metadata);
      },
      py::arg("path"), py::arg("state"), py::arg("metadata") = io::Metadata{},
      R"(Write tensors to a safetensors file, which is either complete or not there.

Args:
    path: file to write; one that is there is replaced at the end.
    state: a state dict or pairs (name, Tensor or NumPy array).
    metadata: a dict of str to str that is stored along.

Raises:
    InvalidArgumentError: the file cannot be written, or names repeat; the message has the path.)");
  const auto load = [](const std::filesystem::path& path) {
    const py::gil_scoped_release nogil;
    return io::load(path.string());
  };
  m.def(
      "load", [load](const std::filesystem::path& path) { return to_dict(load(path).tensors); },
      py::arg("path"),
      R"(Read a safetensors file as a dict of name to Tensor, in the file's order.

Raises:
    InvalidArgumentError: the file is missing, truncated or corrupt; the message says how.)");
  m.def(
      "load_metadata", [load](const std::filesystem::path& path) { return load(path).metadata; },
      py::arg("path"),
      "The metadata of a safetensors file, a dict of str to str. Errors are those of load().");
}

}  // namespace hvd::python
