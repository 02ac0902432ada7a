// What a Python module registers: by register_...() and by assigning to attributes.
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/native/nn/nn.h"
#include "core/base/status.h"

namespace hvd::python {
namespace {

using RegisterModule = std::shared_ptr<nn::Module> (nn::Module::*)(std::string,
                                                                   std::shared_ptr<nn::Module>);

// Opens what derived classes may call.
struct Registrar : nn::Module {
  using nn::Module::Part;
  using nn::Module::part;
  using nn::Module::register_buffer;
  using nn::Module::register_parameter;
  using nn::Module::replace_buffer;
  using nn::Module::replace_module;
  using nn::Module::replace_parameter;
  using nn::Module::unregister;
  static constexpr RegisterModule kRegisterModule = &Registrar::register_module<nn::Module>;
};
using Part = Registrar::Part;

std::string type_name(const py::handle& object) {
  return Py_TYPE(object.ptr())->tp_name;
}

void set_plain(const py::object& self, const py::str& name, const py::object& value) {
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) {
    throw py::error_already_set();
  }
}

// What Python registered under this name: the attribute and the part belong together.
Part part_in_python(const py::object& self, const nn::Module& module, const py::str& name) {
  const bool known = py::hasattr(self, "__dict__") && self.attr("__dict__").contains(name);
  return known ? (module.*&Registrar::part)(name) : Part::kNone;
}

void register_part(nn::Module& module, const std::string& name, const py::object& value, Part part,
                   bool persistent) {
  if (part == Part::kModule) {
    (module.*Registrar::kRegisterModule)(name, value.cast<std::shared_ptr<nn::Module>>());
  } else if (part == Part::kParameter) {
    (module.*&Registrar::register_parameter)(name, value.cast<Tensor>());
  } else if (part == Part::kBuffer) {
    (module.*&Registrar::register_buffer)(name, value.cast<Tensor>(), persistent);
  }
}

void replace_part(nn::Module& module, const std::string& name, const py::object& value, Part part) {
  if (part == Part::kModule) {
    (module.*&Registrar::replace_module)(name, value.cast<std::shared_ptr<nn::Module>>());
  } else if (part == Part::kParameter) {
    (module.*&Registrar::replace_parameter)(name, value.cast<Tensor>());
  } else if (part == Part::kBuffer) {
    (module.*&Registrar::replace_buffer)(name, value.cast<Tensor>());
  }
}

// Registers `value` (kNone: forgets what was there), in the place of what Python registered under
// this name before.
void set_part(const py::object& self, const py::str& name, const py::object& value, Part part,
              bool persistent = true) {
  nn::Module& module = module_of(self, "cannot assign parts");
  const Part before = part_in_python(self, module, name);
  if (before != Part::kNone && before == part) {
    replace_part(module, name, value, part);
  } else {
    if (before != Part::kNone) (module.*&Registrar::unregister)(name);
    register_part(module, name, value, part, persistent);
  }
  set_plain(self, name, value);
}

bool is_parameter(const py::object& value) {
  return py::isinstance<Tensor>(value) && nn::is_parameter(value.cast<const Tensor&>());
}

// What `value` becomes as attribute `name`, under which `before` is registered.
Part part_for(const py::object& value, const std::string& name, Part before) {
  if (py::isinstance<nn::Module>(value)) return Part::kModule;
  if (is_parameter(value)) return Part::kParameter;
  if (before == Part::kNone || value.is_none()) return Part::kNone;
  if (before == Part::kBuffer && py::isinstance<Tensor>(value)) return Part::kBuffer;
  const char* expected = before == Part::kModule   ? "a Module"
                         : before == Part::kBuffer ? "a Tensor"
                                                   : "nn.Parameter";
  throw py::type_error("cannot assign " + type_name(value) + " as '" + name + "': expected " +
                       expected + " or None; del it first to make it a plain attribute");
}

// A property decides itself what may be assigned.
bool is_property(const py::object& self, const py::str& name) {
  const py::object found = py::getattr(py::type::of(self), name, py::none());
  return Py_TYPE(found.ptr())->tp_descr_set != nullptr;
}

bool is_initialised(const py::handle& self) {
  auto* instance = reinterpret_cast<py::detail::instance*>(self.ptr());
  return instance->get_value_and_holder().holder_constructed();
}

// module.name = value registers layers and parameters, as in PyTorch.
void set_attribute(const py::object& self, const py::str& name, const py::object& value) {
  const bool is_module = py::isinstance<nn::Module>(value);
  const bool registers = is_module || is_parameter(value);
  if (is_property(self, name) || (!registers && !is_initialised(self))) {
    return set_plain(self, name, value);
  }
  const nn::Module& module =
      module_of(self, is_module ? "cannot assign module" : "cannot assign parameters");
  const Part before = part_in_python(self, module, name);
  set_part(self, name, value, part_for(value, name, before));
}

void delete_attribute(const py::object& self, const py::str& name) {
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) throw py::error_already_set();
  nn::Module& module = module_of(self, "cannot delete");
  if ((module.*&Registrar::part)(name) != Part::kNone) (module.*&Registrar::unregister)(name);
}

void register_parameter(const py::object& self, const py::str& name,
                        const std::optional<Tensor>& value) {
  set_part(self, name, py::cast(value), value ? Part::kParameter : Part::kNone);
}

void register_buffer(const py::object& self, const py::str& name,
                     const std::optional<Tensor>& value, Flag<"persistent"> persistent) {
  set_part(self, name, py::cast(value), value ? Part::kBuffer : Part::kNone, persistent);
}

void register_module(const py::object& self, const py::str& name,
                     const Typed<"Module | None">& module) {
  if (!module.is_none() && !py::isinstance<nn::Module>(module)) {
    throw py::type_error(type_name(module) + " is not a Module");
  }
  set_part(self, name, module, module.is_none() ? Part::kNone : Part::kModule);
}

std::vector<std::pair<std::string, py::object>> named_modules(const py::object& self) {
  std::vector<std::pair<std::string, py::object>> found = {{"", self}};
  for (const auto& [path, module] : module_of(self, "no modules").named_descendants()) {
    found.emplace_back(path, py::cast(module));
  }
  return found;
}

// The entry of `entries` under `path`; AttributeError, as for an attribute, if there is none.
template <typename Value>
Value entry_at(const std::vector<std::pair<std::string, Value>>& entries, const std::string& path,
               const char* kind) {
  for (const auto& [name, value] : entries) {
    if (name == path) return value;
  }
  throw py::attribute_error(std::string("the module has no ") + kind + " '" + path + "'");
}

using AnyModule = Typed<"Module">;

void def_registration(ModuleClass& cls) {
  constexpr Arg kName{"name", "as for register_parameter()."};
  constexpr Invalid kAsThere{"as register_parameter()."};
  define(
      cls, "register_parameter", &register_parameter,
      "Add a parameter, also as an attribute; it requires grad from now on, unless it is an "
      "``nn.Parameter`` already.",
      Arg("name", "without '.'; what Python registered under it is replaced."),
      Arg("value", "a Tensor of any shape; None registers nothing and makes the attribute None."),
      Invalid{"the name is empty, has a '.', or a layer of C++ has such a part."});
  define(cls, "register_buffer", &register_buffer,
         "Add a tensor that is not trained, also as an attribute.", kName,
         Arg("value", "a Tensor of any shape, or None."),
         Arg("persistent", "whether it is part of state_dict().") = true, kAsThere);
  for (const char* name : {"register_module", "add_module"}) {
    define(cls, name, &register_module, "Add a sub-module, also as an attribute.", kName,
           Arg("module", "a Module, or None."), kAsThere,
           Raises{"TypeError: ``module`` is something else."});
  }
  cls.def("__setattr__", &set_attribute, py::arg("name"), py::arg("value"),
          "Set an attribute; layers and parameters are registered.")
      .def("__delattr__", &delete_attribute, py::arg("name"),
           "Delete an attribute; what it registered is forgotten.");
}

}  // namespace

nn::Module& module_of(const py::handle& self, const char* what) {
  if (is_initialised(self)) return self.cast<nn::Module&>();
  throw py::attribute_error(std::string(what) + " before Module.__init__() call: " +
                            type_name(self) + ".__init__ begins with super().__init__()");
}

void assign_parameter(nn::Module& module, const char* name, Tensor& member,
                      const MaybeTensor& value) {
  if (!value) {
    if (member.defined()) (module.*&Registrar::unregister)(name);
    member = Tensor();
    return;
  }
  if (!value->is_leaf() || (member.defined() && member.shape() != value->shape())) {
    throw InvalidArgumentError(name, " of a ", module.class_name(), " is a leaf",
                               (member.defined() ? " " + to_string(member.shape()) : ""), ", got ",
                               to_string(value->shape()));
  }
  if (member.defined()) {
    (module.*&Registrar::replace_parameter)(name, *value);
  } else {
    (module.*&Registrar::register_parameter)(name, *value);
  }
  member = *value;
}

// Of a native layer whose parameter is no attribute: an LSTM's.
void replace_parameter(nn::Module& module, const std::string& name, const Tensor& value) {
  (module.*&Registrar::replace_parameter)(name, value);
}

void assign_module(nn::Module& module, const char* name, const std::shared_ptr<nn::Module>& value) {
  (module.*&Registrar::replace_module)(name, value);
}

void def_parts(ModuleClass& cls) {
  def_registration(cls);
  cls.def("parameters", &nn::Module::parameters,
          "All parameters, a list of Tensors; one that is in several places appears once.")
      .def("named_parameters", &nn::Module::named_parameters,
           "List of (name, Tensor) of all parameters, each once under its first name.")
      .def("named_buffers", &nn::Module::named_buffers, "List of (name, Tensor) of all buffers.")
      .def(
          "buffers",
          [](const nn::Module& self) {
            std::vector<Tensor> buffers;
            for (const auto& [name, buffer] : self.named_buffers()) buffers.push_back(buffer);
            return buffers;
          },
          "All buffers, a list of Tensors, each once.")
      .def("named_children", &nn::Module::named_children,
           "List of (name, Module) of the direct sub-modules.")
      .def("children", &nn::Module::children, "The direct sub-modules, each once.")
      .def(
          "named_modules", [](const py::object& self) -> Typed<"list[tuple[str, Module]]"> {
            return py::cast(named_modules(self));
          },
          "List of (path, Module): this module under \"\", then all below it, each once.")
      .def(
          "modules",
          [](const py::object& self) {
            py::typing::List<AnyModule> found;
            for (const auto& [path, module] : named_modules(self)) found.append(module);
            return found;
          },
          "This module and all below it, each once.")
      .def(
          "get_submodule",
          [](const py::object& self, const std::string& target) -> AnyModule {
            return entry_at(named_modules(self), target, "submodule");
          },
          py::arg("target"),
          "The module at the path ``target``, such as \"layer1.0\"; AttributeError without.")
      .def(
          "get_parameter",
          [](const nn::Module& self, const std::string& target) {
            return entry_at(self.named_parameters(), target, "parameter");
          },
          py::arg("target"), "The parameter of the full name ``target``; AttributeError without.")
      .def(
          "get_buffer",
          [](const nn::Module& self, const std::string& target) {
            return entry_at(self.named_buffers(), target, "buffer");
          },
          py::arg("target"), "The buffer of the full name ``target``; AttributeError without.")
      .def("_replace_parameter", &replace_parameter, py::arg("name"), py::arg("value"));
}

}  // namespace hvd::python
