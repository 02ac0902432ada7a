#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/native/nn/nn.h"
#include "horovod_cpp/nn/containers.h"

namespace hvd::python {
namespace {

using Modules = std::vector<std::shared_ptr<nn::Module>>;

using ModuleIterable = Typed<"collections.abc.Iterable[Module]">;

Modules modules_from(const py::handle& objects, const char* container) {
  Modules modules;
  for (const py::handle object : objects) {
    if (!py::isinstance<nn::Module>(object)) {
      throw py::type_error(std::string(container) + " is made of Modules, got " +
                           Py_TYPE(object.ptr())->tp_name);
    }
    modules.push_back(object.cast<std::shared_ptr<nn::Module>>());
  }
  return modules;
}

Modules modules_of(const nn::Module& self) {
  Modules modules;
  for (const auto& [name, module] : self.named_children()) modules.push_back(module);
  return modules;
}

// A negative index counts from the end; `end` is the first that is out of range.
std::size_t position(std::int64_t index, std::size_t size, std::size_t end) {
  const std::int64_t at = index < 0 ? index + static_cast<std::int64_t>(size) : index;
  if (at < 0 || at >= static_cast<std::int64_t>(end)) {
    throw py::index_error(std::to_string(index) + " of " + std::to_string(size) + " modules");
  }
  return static_cast<std::size_t>(at);
}

template <typename List>
std::shared_ptr<List> slice_of(const List& self, const py::slice& slice) {
  std::size_t start = 0, stop = 0, step = 0, length = 0;
  if (!slice.compute(self.size(), &start, &stop, &step, &length)) throw py::error_already_set();
  Modules modules;
  for (std::size_t i = 0; i < length; ++i, start += step) modules.push_back(self.at(start));
  return std::make_shared<List>(modules);
}

template <typename List>
std::shared_ptr<nn::Module> pop(List& self, std::int64_t index) {
  Modules modules = modules_of(self);
  const auto at = modules.begin() +
                  static_cast<std::ptrdiff_t>(position(index, modules.size(), modules.size()));
  std::shared_ptr<nn::Module> gone = *at;
  modules.erase(at);
  self.assign(modules);
  return gone;
}

// What a list of modules can do; names are always "0", "1", ...
template <typename Class>
void def_list(Class& cls) {
  using List = typename Class::type;
  cls.def("__len__", &List::size, "Number of modules.")
      .def(
          "__getitem__",
          [](const List& self, std::int64_t index) {
            return self.at(position(index, self.size(), self.size()));
          },
          py::arg("index"), "One module, or for a slice a new list of the same modules.")
      .def("__getitem__", &slice_of<List>, py::arg("index"))
      .def(
          "__setitem__",
          [](List& self, std::int64_t index, std::shared_ptr<nn::Module> module) {
            const std::size_t at = position(index, self.size(), self.size());
            assign_module(self, std::to_string(at).c_str(), module);
          },
          py::arg("index"), py::arg("module").none(false), "Put another module there.")
      .def(
          "__delitem__", [](List& self, std::int64_t index) { pop(self, index); }, py::arg("index"),
          "Take a module out; those behind it move up.")
      .def(
          "__iter__", [](const List& self) -> Typed<"collections.abc.Iterator[Module]"> {
            return py::iter(py::cast(modules_of(self)));
          },
          "The modules in order.")
      .def(
          "append",
          [](const ModuleT& self, std::shared_ptr<nn::Module> module) {
            self.template cast<List&>().append(std::move(module));
            return self;
          },
          py::arg("module").none(false), "Add a module at the end; returns the list.")
      .def(
          "extend",
          [](const ModuleT& self, const ModuleIterable& added) {
            self.template cast<List&>().extend(modules_from(added, "a list of modules"));
            return self;
          },
          py::arg("modules"), "Add modules at the end; returns the list.")
      .def(
          "insert",
          [](List& self, std::int64_t index, std::shared_ptr<nn::Module> module) {
            Modules modules = modules_of(self);
            const std::size_t at = position(index, modules.size(), modules.size() + 1);
            modules.insert(modules.begin() + static_cast<std::ptrdiff_t>(at), std::move(module));
            self.assign(modules);
          },
          py::arg("index"), py::arg("module").none(false), "Add a module before ``index``.")
      .def("pop", &pop<List>, py::arg("index") = -1,
           "Take the module at ``index`` out and return it.");
  cls.attr("__iadd__") = cls.attr("extend");
}

const std::shared_ptr<nn::Module>& entry(const nn::ModuleDict& self, const std::string& name) {
  if (!self.contains(name)) throw py::key_error(name);
  return self.at(name);
}

using ModuleMapping = Typed<"collections.abc.Mapping[str, Module]">;

void update(nn::ModuleDict& self, const ModuleMapping& modules) {
  const py::dict given(modules);
  for (const auto& [name, module] : given) {
    self.insert(name.cast<std::string>(), module.cast<std::shared_ptr<nn::Module>>());
  }
}

void bind_dict(py::module_& m) {
  py::classh<nn::ModuleDict, nn::Module> cls(
      m, "ModuleDict",
      "Modules by name, in the order they were added.\n\nArgs:\n    modules: a dict of them.");
  cls.def(py::init([](const ModuleMapping& modules) {
            auto result = std::make_shared<nn::ModuleDict>();
            update(*result, modules);
            return result;
          }),
          py::arg("modules") = py::dict())
      .def("update", &update, py::arg("modules"), "Add or replace modules.")
      .def(
          "pop",
          [](nn::ModuleDict& self, const std::string& name) {
            const std::shared_ptr<nn::Module> gone = entry(self, name);
            self.erase(name);
            return gone;
          },
          py::arg("name"), "Take the module ``name`` out and return it; KeyError without.")
      .def("__len__", &nn::ModuleDict::size, "Number of modules.")
      .def("__getitem__", &entry, py::arg("name"), "The module of that name; KeyError without.")
      .def("__setitem__", &nn::ModuleDict::insert, py::arg("name"), py::arg("module").none(false),
           "Add a module, or replace that of the name.")
      .def(
          "__delitem__",
          [](nn::ModuleDict& self, const std::string& name) {
            entry(self, name);
            self.erase(name);
          },
          py::arg("name"), "Take a module out; KeyError without.")
      .def("__contains__", &nn::ModuleDict::contains, py::arg("name"), "Whether it has the name.")
      .def(
          "__iter__",
          [](const py::object& self) -> py::typing::Iterator<py::str> {
            return py::iter(self.attr("keys")());
          },
          "The names in order.")
      .def(
          "keys",
          [](const nn::ModuleDict& self) {
            std::vector<std::string> names;
            for (const auto& [name, module] : self.named_children()) names.push_back(name);
            return names;
          },
          "List of the names.")
      .def(
          "values", [](const nn::ModuleDict& self) { return modules_of(self); },
          "List of the modules.")
      .def("items", &nn::Module::named_children, "List of (name, Module).");
}

}  // namespace

void bind_nn_containers(py::module_& m) {
  py::classh<nn::Sequential, nn::Module> sequential(
      m, "Sequential", "Modules one after the other, named \"0\", \"1\", ...");
  sequential.def(py::init([](const py::Args<nn::Module>& modules) {
                   return std::make_shared<nn::Sequential>(modules_from(modules, "Sequential"));
                 }),
                 R"(Chain modules.

Args:
    *modules: Modules that take and return one Tensor; modules written in Python too.

Raises:
    TypeError: one is not a Module. For names of your own write a Module with attributes.)");
  def_list(sequential);
  py::classh<nn::ModuleList, nn::Module> list(
      m, "ModuleList", "Modules named \"0\", \"1\", ...; whoever holds the list calls them.");
  list.def(py::init([](const ModuleIterable& modules) {
             return std::make_shared<nn::ModuleList>(modules_from(modules, "ModuleList"));
           }),
           py::arg("modules") = py::list(), "A list of ``modules``.");
  def_list(list);
  bind_dict(m);
}

}  // namespace hvd::python
