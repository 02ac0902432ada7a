#include "bindings/native/nn/nn.h"

#include <unordered_map>

#include "horovod_cpp/autograd/functions/convolution.h"

namespace hvd::python {

IntPair int_pair_from(const py::object& object) {
  if (PyIndex_Check(object.ptr()) != 0) {
    if (const py::object both = number_from(object, true, true)) return both.cast<std::int64_t>();
  }
  const auto pair = value_of<std::pair<Integer, Integer>>(object, /*convert=*/true);
  if (pair) return {pair->first, pair->second};
  refuse_option("a size, stride or padding", "an int or a pair of ints", object);
}

IntPair output_size_from(const py::object& object) {
  const auto extent = [](const py::object& given) {
    return given.is_none() ? kInputExtent : given.cast<Integer>().value;
  };
  const bool pair = py::isinstance<py::sequence>(object) && py::len(object) == 2;
  if (!pair) return object.is_none() ? IntPair(kInputExtent) : int_pair_from(object);
  return {extent(object[py::int_(0)]), extent(object[py::int_(1)])};
}

namespace {

// What the Python package remembers of modules that it made, however often their Python halves come
// and go: the arguments they were made with, of which horovod_cpp/nn/copying.py makes copies.
struct Origin {
  std::weak_ptr<nn::Module> module;  // expired: another module may have its address by now
  SharedObject value;
};

// Guarded by the GIL; never destroyed, as it holds Python objects.
std::unordered_map<const nn::Module*, Origin>& origins() {
  static auto* table = new std::unordered_map<const nn::Module*, Origin>;
  return *table;
}

void set_origin(const std::shared_ptr<nn::Module>& module, const py::object& value) {
  static std::size_t limit = 64;
  auto& table = origins();
  if (table.size() >= limit) {
    std::erase_if(table, [](const auto& entry) { return entry.second.module.expired(); });
    limit = 2 * table.size() + 64;
  }
  table.insert_or_assign(module.get(), Origin{module, SharedObject(value)});
}

py::object origin_of(const std::shared_ptr<nn::Module>& module) {
  const auto found = origins().find(module.get());
  if (found == origins().end() || found->second.module.lock() != module) return py::none();
  return found->second.value.get();
}

}  // namespace

void bind_nn(py::module_& m) {
  py::module_ functional = m.def_submodule("_functional", "horovod_cpp.nn.functional");
  bind_nn_module(m);
  bind_nn_layers(m, functional);
  bind_convolution(m);
  bind_nn_containers(m);
  bind_nn_sequences(m);
  bind_nn_losses(m, functional);
  py::module_ initialisers = m.def_submodule("_nn_init", "horovod_cpp.nn.init");
  bind_nn_init(initialisers);
  bind_models(m);
  // Those of the top level that need no further names.
  for (const char* name : {"conv1d", "conv2d", "conv_transpose2d"}) {
    functional.attr(name) = m.attr(name);
  }
  m.def("_set_origin", &set_origin, py::arg("module"), py::arg("value"));
  m.def("_origin_of", &origin_of, py::arg("module"));
}

}  // namespace hvd::python
