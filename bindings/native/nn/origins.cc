// What the Python package remembers of modules that it made, however often their Python halves come
// and go: the arguments they were made with, of which horovod_cpp/nn/copying.py makes copies.
#include <memory>
#include <unordered_map>

#include "bindings/native/nn/nn.h"
#include "bindings/native/shared_object.h"

namespace hvd::python {
namespace {

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

void bind_nn_origins(py::module_& m) {
  m.def("_set_origin", &set_origin, py::arg("module"), py::arg("value"));
  m.def("_origin_of", &origin_of, py::arg("module"));
}

}  // namespace hvd::python
