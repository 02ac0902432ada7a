#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn.h"
#include "bindings/native/words.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::python {
namespace {

// The Tensor of a result, or the first of a tuple of them; undefined if there is none.
Tensor main_output(const py::object& result) {
  if (py::isinstance<Tensor>(result)) return result.cast<Tensor>();
  if (!py::isinstance<py::tuple>(result) || py::len(result) == 0) return {};
  return main_output(result[py::int_(0)]);
}

py::object with_main_output(const py::object& result, const Tensor& output) {
  if (!output.defined() || main_output(result).is(output)) return result;
  if (py::isinstance<Tensor>(result)) return py::cast(output);
  py::list parts(result);
  parts[0] = with_main_output(parts[0], output);
  return py::tuple(parts);
}

// Lets Python classes derive from Module; keeps their Python half alive while C++ holds them.
class PythonModule : public nn::Module, public py::trampoline_self_life_support {
 public:
  Tensor forward(const Tensor& input) override {
    const py::gil_scoped_acquire gil;
    const py::function forward = py::get_override(static_cast<const nn::Module*>(this), "forward");
    if (!forward) throw py::type_error(class_name() + " defines no forward(self, input)");
    const py::object result = forward(input);
    Tensor output = main_output(result);
    if (output.defined()) return output;
    throw py::type_error("forward of " + class_name() + " returned " +
                         Py_TYPE(result.ptr())->tp_name + ", not a Tensor");
  }
  void train(bool mode) override { PYBIND11_OVERRIDE(void, nn::Module, train, mode); }
  std::string class_name() const override {
    const py::gil_scoped_acquire gil;
    const py::object self =
        py::cast(static_cast<const nn::Module*>(this), py::return_value_policy::reference);
    return Py_TYPE(self.ptr())->tp_name;
  }
};

using RegisterModule = std::shared_ptr<nn::Module> (nn::Module::*)(std::string,
                                                                   std::shared_ptr<nn::Module>);

// Opens what derived classes may call.
struct Registrar : nn::Module {
  using nn::Module::has_part;
  using nn::Module::register_buffer;
  using nn::Module::register_parameter;
  using nn::Module::unregister;
  static constexpr RegisterModule kRegisterModule = &Registrar::register_module<nn::Module>;
};

enum class Part { kNone, kModule, kParameter, kBuffer };

void set_plain(const py::object& self, const py::str& name, const py::object& value) {
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) {
    throw py::error_already_set();
  }
}

// Registers `value`, in the place of what Python registered under this name before.
void set_part(const py::object& self, const py::str& name, const py::object& value, Part part) {
  auto& module = self.cast<nn::Module&>();
  const bool replaces = py::hasattr(self, "__dict__") && self.attr("__dict__").contains(name) &&
                        (module.*&Registrar::has_part)(name);
  if (replaces) (module.*&Registrar::unregister)(name);
  if (part == Part::kModule) {
    (module.*Registrar::kRegisterModule)(name, value.cast<std::shared_ptr<nn::Module>>());
  } else if (part == Part::kParameter) {
    (module.*&Registrar::register_parameter)(name, value.cast<Tensor>());
  } else if (part == Part::kBuffer) {
    (module.*&Registrar::register_buffer)(name, value.cast<Tensor>());
  }
  set_plain(self, name, value);
}

bool is_buffer(const nn::Module& module, const std::string& name) {
  for (const auto& [known, tensor] : module.named_buffers()) {
    if (known == name) return true;
  }
  return false;
}

// module.name = value registers layers and parameters, as in PyTorch.
void set_attribute(const py::object& self, const py::str& name, const py::object& value) {
  Part part = Part::kNone;
  if (py::isinstance<nn::Module>(value)) {
    part = Part::kModule;
  } else if (py::isinstance<Tensor>(value)) {
    if (value.cast<Tensor&>().requires_grad() && value.cast<Tensor&>().is_leaf()) {
      part = Part::kParameter;
    } else if (is_buffer(self.cast<nn::Module&>(), name)) {
      part = Part::kBuffer;
    }
  }
  set_part(self, name, value, part);
}

void delete_attribute(const py::object& self, const py::str& name) {
  auto& module = self.cast<nn::Module&>();
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) throw py::error_already_set();
  if ((module.*&Registrar::has_part)(name)) (module.*&Registrar::unregister)(name);
}

py::object call_forward(const py::object& self, py::list args, const py::kwargs& kwargs,
                        const Tensor& input) {
  args[0] = py::cast(input);
  return self.attr("forward")(*py::tuple(args), **kwargs);
}

// The hooks see the first argument if it is a Tensor, and the main output.
py::object call_module(const py::object& self, const py::args& args, const py::kwargs& kwargs) {
  auto& module = self.cast<nn::Module&>();
  if (args.empty() || !py::isinstance<Tensor>(args[0])) {
    return self.attr("forward")(*args, **kwargs);
  }
  const Tensor input = args[0].cast<Tensor>();
  // Neither Python's nor one that was bound for a class of its own.
  const bool native =
      py::type::of(self).attr("forward").is(py::type::of<nn::Module>().attr("forward"));
  if (native && args.size() == 1 && kwargs.empty()) {
    const auto run = [&] {
      const py::gil_scoped_release nogil;
      return module(input);
    };
    return py::cast(run());
  }
  py::object result;
  const Tensor output = module.call(input, [&](const Tensor& given) {
    result = call_forward(self, py::list(args), kwargs, given);
    return main_output(result);
  });
  return with_main_output(result, output);
}

// What a hook returned: None, a Tensor, or a tuple of one.
Tensor replacement(const py::object& result) {
  if (result.is_none()) return {};
  Tensor output = main_output(result);
  if (!output.defined()) throw py::type_error("a hook returns None or a Tensor");
  return output;
}

// The module's Python object, or a new one that shares the ownership.
py::object to_python(nn::Module& module) {
  if (const auto shared = module.held_by_parent()) return py::cast(shared);
  return py::cast(&module, py::return_value_policy::reference);
}

void apply_to(const py::object& module, const py::function& function) {
  for (const auto& child : module.cast<nn::Module&>().named_children()) {
    apply_to(py::cast(child.second), function);
  }
  function(module);
}

// Calls a Python hook from C++ with the module and two more arguments.
template <typename... Arguments>
Tensor call_hook(const std::shared_ptr<const void>& hook, nn::Module& module,
                 Arguments... arguments) {
  auto* object = static_cast<PyObject*>(const_cast<void*>(hook.get()));
  return replacement(
      py::reinterpret_borrow<py::function>(object)(to_python(module), std::move(arguments)...));
}

struct RemovableHandle {
  std::function<void()> remove;
};

RemovableHandle add_pre_hook(nn::Module& module, const py::function& hook) {
  return {module.register_forward_pre_hook(
      [owner = keep_alive(hook)](nn::Module& self, const Tensor& input) {
        const py::gil_scoped_acquire gil;
        return call_hook(owner, self, py::make_tuple(input));
      })};
}

RemovableHandle add_forward_hook(nn::Module& module, const py::function& hook) {
  return {module.register_forward_hook(
      [owner = keep_alive(hook)](nn::Module& self, const Tensor& input, const Tensor& output) {
        const py::gil_scoped_acquire gil;
        return call_hook(owner, self, py::make_tuple(input), to_object(output));
      })};
}

RemovableHandle add_backward_hook(nn::Module& module, const py::function& hook) {
  return {module.register_full_backward_hook([owner = keep_alive(hook)](nn::Module& self,
                                                                        const Tensor& grad_input,
                                                                        const Tensor& grad_output) {
    const py::gil_scoped_acquire gil;
    return call_hook(owner, self, py::make_tuple(to_object(grad_input)),
                     py::make_tuple(grad_output));
  })};
}

using ModuleClass = py::classh<nn::Module, PythonModule>;

void def_parts(ModuleClass& cls) {
  cls.def(
         "register_parameter",
         [](const py::object& self, const py::str& name, const Tensor& value) {
           Tensor leaf = value;
           set_part(self, name, py::cast(leaf.requires_grad_()), Part::kParameter);
         },
         py::arg("name"), py::arg("value"),
         "Add a parameter, also as an attribute; it requires grad from now on.")
      .def(
          "register_buffer",
          [](const py::object& self, const py::str& name, const Tensor& value) {
            set_part(self, name, py::cast(value), Part::kBuffer);
          },
          py::arg("name"), py::arg("value"),
          "Add a tensor that is saved but not trained, also as an attribute.")
      .def(
          "register_module",
          [](const py::object& self, const py::str& name, const py::object& module) {
            set_part(self, name, module, Part::kModule);
          },
          py::arg("name"), py::arg("module"), "Add a sub-module, also as an attribute.")
      .def("parameters", &nn::Module::parameters, "All parameters, a list of Tensors.")
      .def("named_parameters", &nn::Module::named_parameters,
           "List of (name, Tensor) of all parameters.")
      .def("named_buffers", &nn::Module::named_buffers, "List of (name, Tensor) of all buffers.")
      .def("named_children", &nn::Module::named_children, "List of (name, Module).")
      .def("children", &nn::Module::children, "The direct sub-modules, each once.")
      .def(
          "named_modules",
          [](const py::object& self) {
            py::list found;
            found.append(py::make_tuple("", self));
            for (const auto& entry : self.cast<nn::Module&>().named_descendants()) {
              found.append(py::make_tuple(entry.first, entry.second));
            }
            return found;
          },
          "List of (path, Module): this module under \"\", then all below it, each once.")
      .def(
          "modules",
          [](const py::object& self) {
            py::list found;
            found.append(self);
            for (const auto& entry : self.cast<nn::Module&>().named_descendants()) {
              found.append(entry.second);
            }
            return found;
          },
          "This module and all below it, each once.");
}

void def_state(ModuleClass& cls) {
  cls.def(
         "state_dict", [](const nn::Module& self) { return to_dict(self.state_dict()); },
         "Ordered dict name -> Tensor of parameters and buffers: the module's own, not copies.")
      .def(
          "load_state_dict",
          [](nn::Module& self, const py::handle& state) {
            self.load_state_dict(named_tensors_from(state));
          },
          py::arg("state"),
          R"(Copy values in, converting the dtype.

Raises:
    InvalidArgumentError: entries are missing, unexpected or of the wrong shape; then nothing is
        changed.)")
      .def_property_readonly("training", &nn::Module::is_training,
                             "Whether train() or eval() was called last; True at first.")
      .def("zero_grad", &nn::Module::zero_grad, py::arg("set_to_none") = true,
           "Drop all gradients, or fill them with zeros.");
}

// Calls a member and returns the module, so that calls can be chained.
template <typename... Arguments>
auto chained(void (nn::Module::*function)(Arguments...)) {
  return [function](const py::object& self, Arguments... arguments) {
    (self.cast<nn::Module&>().*function)(std::forward<Arguments>(arguments)...);
    return self;
  };
}

void def_switches(ModuleClass& cls) {
  const auto converter = [](DType dtype) {
    return [dtype](const py::object& self) {
      self.cast<nn::Module&>().to(dtype);
      return self;
    };
  };
  cls.def("train", chained(&nn::Module::train), py::arg("mode") = true,
          "Switch this module and its sub-modules to training (dropout, batch statistics).")
      .def(
          "eval", [](const py::object& self) { return self.attr("train")(false); },
          "Switch to evaluation; the same as train(False).")
      .def("requires_grad_", chained(&nn::Module::requires_grad_), py::arg("value") = true,
           "Switch ``requires_grad`` of all parameters.")
      .def(
          "apply",
          [](const py::object& self, const py::function& function) {
            apply_to(self, function);
            return self;
          },
          py::arg("function"), "Call ``function(module)`` on every sub-module, then on this one.")
      .def(
          "to",
          [](const py::object& self, const py::handle& dtype) {
            if (!is_device(dtype)) self.cast<nn::Module&>().to(dtype_from(dtype));
            return self;
          },
          py::arg("dtype"),
          "Convert parameters, gradients and buffers of a floating dtype in place. \"cpu\" is "
          "where "
          "they are; UnsupportedError on another device.")
      .def("half", converter(DType::kF16), "to(\"float16\")")
      .def("bfloat16", converter(DType::kBF16), "to(\"bfloat16\")")
      .def("float", converter(DType::kF32), "to(\"float32\")")
      .def("double", converter(DType::kF64), "to(\"float64\")");
}

void def_hooks(ModuleClass& cls) {
  cls.def("register_forward_pre_hook", &add_pre_hook, py::arg("hook"),
          R"(Call ``hook(module, (input,))`` before forward; what it returns replaces the input.

Hooks see the first argument of the call, if it is a Tensor.

Returns:
    A RemovableHandle.)")
      .def("register_forward_hook", &add_forward_hook, py::arg("hook"),
           R"(Call ``hook(module, (input,), output)`` after forward; it may replace the output.

Of a tuple of outputs the hook sees and replaces the first.

Returns:
    A RemovableHandle.)")
      .def("register_full_backward_hook", &add_backward_hook, py::arg("hook"),
           R"(Call ``hook(module, (grad_input,), (grad_output,))`` in backward().

``grad_input`` is None if the input wants no gradient; what the hook returns replaces it.

Returns:
    A RemovableHandle.)");
}

}  // namespace

void bind_nn_module(py::module_& m) {
  py::class_<RemovableHandle>(m, "RemovableHandle", "What registering a hook returns.")
      .def(
          "remove", [](const RemovableHandle& handle) { handle.remove(); },
          "Remove the hook; once is enough, twice does no harm.");
  ModuleClass cls(m, "Module", R"(A layer or a model.

Derive from it, call ``super().__init__()``, assign layers and parameters (Tensors that require
grad) as attributes, and define ``forward``, which may take and return what it likes; to be part of
a Sequential it takes one Tensor. Names are PyTorch's: "0.weight", "fc.bias".)",
                  py::dynamic_attr());
  cls.def(py::init<>())
      .def("forward", &nn::Module::forward, py::arg("input"), ReleaseGil(),
           "The output for one input Tensor.")
      .def("__call__", &call_module)
      .def("__setattr__", &set_attribute)
      .def("__delattr__", &delete_attribute);
  def_parts(cls);
  def_state(cls);
  def_switches(cls);
  def_hooks(cls);
}

}  // namespace hvd::python
