#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/native/nn.h"
#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/sequential.h"

namespace hvd::python {
namespace {

using Modules = std::vector<std::shared_ptr<nn::Module>>;

Modules modules_from(const py::iterable& objects, const char* container) {
  Modules modules;
  for (const py::handle& object : objects) {
    if (!py::isinstance<nn::Module>(object)) {
      throw py::type_error(std::string(container) + " is made of Modules, got " +
                           Py_TYPE(object.ptr())->tp_name);
    }
    modules.push_back(object.cast<std::shared_ptr<nn::Module>>());
  }
  return modules;
}

// list[index], a negative one from the end.
template <typename List>
std::shared_ptr<nn::Module> item(const List& self, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(self.size());
  if (index < -size || index >= size) throw py::index_error(std::to_string(index));
  return self.at(static_cast<std::size_t>(index < 0 ? index + size : index));
}

const std::shared_ptr<nn::Module>& entry(const nn::ModuleDict& self, const std::string& name) {
  if (!self.contains(name)) throw py::key_error(name);
  return self.at(name);
}

void bind_dict(py::module_& m) {
  py::classh<nn::ModuleDict, nn::Module> cls(m, "ModuleDict",
                                             "Modules by name, in the order they were added.");
  cls.def(py::init([](const py::dict& modules) {
            auto result = std::make_shared<nn::ModuleDict>();
            for (const auto& [name, module] : modules) {
              result->insert(name.cast<std::string>(), module.cast<std::shared_ptr<nn::Module>>());
            }
            return result;
          }),
          py::arg("modules") = py::dict())
      .def("__len__", &nn::ModuleDict::size)
      .def("__getitem__", &entry, py::arg("name"))
      .def("__setitem__", &nn::ModuleDict::insert, py::arg("name"), py::arg("module"))
      .def(
          "__delitem__",
          [](nn::ModuleDict& self, const std::string& name) {
            entry(self, name);
            self.erase(name);
          },
          py::arg("name"))
      .def("__contains__", &nn::ModuleDict::contains, py::arg("name"))
      .def("__iter__", [](const py::object& self) { return py::iter(self.attr("keys")()); })
      .def(
          "keys",
          [](const nn::ModuleDict& self) {
            std::vector<std::string> names;
            for (const auto& [name, module] : self.named_children()) names.push_back(name);
            return names;
          },
          "List of the names.")
      .def(
          "values",
          [](const nn::ModuleDict& self) {
            Modules modules;
            for (const auto& [name, module] : self.named_children()) modules.push_back(module);
            return modules;
          },
          "List of the modules.")
      .def("items", &nn::Module::named_children, "List of (name, Module).");
}

}  // namespace

void bind_nn_containers(py::module_& m) {
  py::classh<nn::Sequential, nn::Module>(m, "Sequential",
                                         "Modules one after the other, named \"0\", \"1\", ...")
      .def(py::init([](const py::args& modules) {
        return std::make_shared<nn::Sequential>(modules_from(modules, "Sequential"));
      }))
      .def(
          "append",
          [](nn::Sequential& self, std::shared_ptr<nn::Module> module) {
            self.push_back(std::move(module));
          },
          py::arg("module"), "Add a module at the end.")
      .def("__len__", &nn::Sequential::size)
      .def("__getitem__", &item<nn::Sequential>, py::arg("index"));
  py::classh<nn::ModuleList, nn::Module>(
      m, "ModuleList", "Modules named \"0\", \"1\", ...; whoever holds the list calls them.")
      .def(py::init([](const py::iterable& modules) {
             return std::make_shared<nn::ModuleList>(modules_from(modules, "ModuleList"));
           }),
           py::arg("modules") = py::list())
      .def("append", &nn::ModuleList::append, py::arg("module"), "Add a module at the end.")
      .def(
          "extend",
          [](nn::ModuleList& self, const py::iterable& modules) {
            self.extend(modules_from(modules, "ModuleList"));
          },
          py::arg("modules"), "Add modules at the end.")
      .def("__len__", &nn::ModuleList::size)
      .def("__getitem__", &item<nn::ModuleList>, py::arg("index"));
  bind_dict(m);
}

}  // namespace hvd::python
