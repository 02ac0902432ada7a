#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "bindings/native/nn/nn.h"
#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"

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

// The hooks see the first argument if it is a Tensor, and the main output.
Anything call_module(const py::object& self, const py::Args<Anything>& args,
                     const py::KWArgs<Anything>& kwargs) {
  nn::Module& module = module_of(self, "cannot call");
  if (args.empty() || !py::isinstance<Tensor>(args[0])) {
    return self.attr("forward")(*args, **kwargs);
  }
  const Tensor input = args[0].cast<Tensor>();
  // Neither Python's nor one that was bound for a class of its own.
  const bool native =
      py::type::of(self).attr("forward").is(py::type::of<nn::Module>().attr("forward"));
  if (native && args.size() == 1 && kwargs.empty()) {
    return py::cast(without_gil([&] { return module(input); }));
  }
  py::object result;
  const Tensor output = module.call(input, [&](const Tensor& given) {
    py::list changed(args);
    changed[0] = py::cast(given);
    result = self.attr("forward")(*py::tuple(changed), **kwargs);
    return main_output(result);
  });
  return with_main_output(result, output);
}

// As PyTorch prints it: the name, extra_repr(), and the sub-modules one per line, indented.
py::str repr_of_module(const py::object& self) {
  const auto indented = [](const py::object& text) { return text.attr("replace")("\n", "\n  "); };
  const py::object name = py::type::of(self).attr("__name__");
  py::object extra = self.attr("extra_repr")();
  py::list lines;
  if (py::bool_(extra)) {
    lines.append(indented(extra));
  } else {
    extra = py::str();
  }
  const py::list children = self.attr("named_children")();
  if (children.empty()) return py::str("{}({})").format(name, extra);
  for (const py::handle child : children) {
    const auto& [own_name, module] = child.cast<std::pair<std::string, py::object>>();
    lines.append(
        py::str("({}): {}")
            .format(own_name.empty() ? "module" : own_name.c_str(), indented(py::repr(module))));
  }
  return py::str("{}(\n  {}\n)").format(name, py::str("\n  ").attr("join")(lines));
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

using ModuleFunction = Typed<"collections.abc.Callable[[Module], typing.Any]">;
using ForwardPreHook = Typed<"ForwardPreHook">;
using ForwardHook = Typed<"ForwardHook">;
using BackwardHook = Typed<"BackwardHook">;

void apply_to(const ModuleT& module, const ModuleFunction& function) {
  for (const auto& child : module_of(module, "cannot apply").named_children()) {
    apply_to(py::cast(child.second), function);
  }
  function(module);
}

// Calls a Python hook from C++ with the module and two more arguments.
template <typename... Arguments>
Tensor call_hook(const SharedObject& hook, nn::Module& module, Arguments... arguments) {
  return replacement(hook.get()(to_python(module), std::move(arguments)...));
}

struct RemovableHandle {
  std::function<void()> remove;
};

RemovableHandle add_pre_hook(nn::Module& module, const ForwardPreHook& hook) {
  return {module.register_forward_pre_hook(
      [shared = SharedObject(hook)](nn::Module& self, const Tensor& input) {
        const py::gil_scoped_acquire gil;
        return call_hook(shared, self, py::make_tuple(input));
      })};
}

RemovableHandle add_forward_hook(nn::Module& module, const ForwardHook& hook) {
  return {module.register_forward_hook(
      [shared = SharedObject(hook)](nn::Module& self, const Tensor& input, const Tensor& output) {
        const py::gil_scoped_acquire gil;
        return call_hook(shared, self, py::make_tuple(input), to_object(output));
      })};
}

RemovableHandle add_backward_hook(nn::Module& module, const BackwardHook& hook) {
  return {module.register_full_backward_hook(
      [shared = SharedObject(hook)](nn::Module& self, const Tensor& grad_input,
                                    const Tensor& grad_output) {
        const py::gil_scoped_acquire gil;
        return call_hook(shared, self, py::make_tuple(to_object(grad_input)),
                         py::make_tuple(grad_output));
      })};
}

void def_state(ModuleClass& cls) {
  cls.def(
         "state_dict", [](const nn::Module& self) { return to_dict(self.state_dict()); },
         "Ordered dict name -> Tensor of parameters and buffers: the module's own, not copies.")
      .def_property("training", &nn::Module::is_training, given<"training">(&nn::Module::train),
                    "Whether train() or eval() was called last; True at first.")
      .def("zero_grad", given<"set_to_none">(&nn::Module::zero_grad), py::arg("set_to_none") = true,
           "Drop all gradients, or, without ``set_to_none``, fill them with zeros.");
  define(
      cls, "load_state_dict",
      [](nn::Module& self, const StateLike& state, Flag<"strict"> strict) {
        return self.load_state_dict(named_tensors_from(state), strict);
      },
      "Copy values in, converting the dtype.",
      Arg("state", "name -> Tensor or NumPy array, as state_dict() gives."),
      Arg("strict", "entries that are missing or unexpected are errors; else they are returned.") =
          true,
      Returns{"IncompatibleKeys: two lists of names, ``missing_keys`` and ``unexpected_keys``."},
      Invalid{"entries do not fit (shape; strict: missing, unexpected); then nothing is\n"
              "        changed."});
}

// Calls a member and returns the module, so that calls can be chained.
template <Text flag>
auto chained(void (nn::Module::*function)(bool)) {
  return [function](const ModuleT& self, Flag<flag> value) {
    (module_of(self, "cannot switch").*function)(value);
    return self;
  };
}

void def_switches(ModuleClass& cls) {
  const auto converter = [](DType dtype) {
    return [dtype](const ModuleT& self) {
      module_of(self, "cannot convert").to(dtype);
      return self;
    };
  };
  cls.def("train", chained<"mode">(&nn::Module::train), py::arg("mode") = true,
          "Switch this module and its sub-modules to training (dropout, batch statistics) or, if "
          "``mode`` is False, to evaluation; returns the module.")
      .def(
          "eval", [](const ModuleT& self) -> ModuleT { return self.attr("train")(false); },
          "Switch to evaluation; the same as train(False).")
      .def("requires_grad_", chained<"value">(&nn::Module::requires_grad_), py::arg("value") = true,
           "Set ``requires_grad`` of all parameters to ``value``; returns the module.")
      .def(
          "apply",
          [](const ModuleT& self, const ModuleFunction& function) {
            apply_to(self, function);
            return self;
          },
          py::arg("function"), "Call ``function(module)`` on every sub-module, then on this one.")
      .def(
          "to",
          [](const ModuleT& self, const DTypeLike& dtype) {
            if (!is_cpu(dtype)) module_of(self, "cannot convert").to(dtype_beside_devices(dtype));
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
  constexpr py::arg kHook("hook");
  constexpr Returns kHandle{"A RemovableHandle."};
  define(cls, "register_forward_pre_hook", &add_pre_hook,
         "Call ``hook(module, (input,))`` before forward; what it returns replaces the input.\n\n"
         "Hooks see the first argument of the call, if it is a Tensor.",
         kHook, kHandle);
  define(cls, "register_forward_hook", &add_forward_hook,
         "Call ``hook(module, (input,), output)`` after forward; it may replace the output.\n\n"
         "Of a tuple of outputs the hook sees and replaces the first.",
         kHook, kHandle);
  define(cls, "register_full_backward_hook", &add_backward_hook,
         "Call ``hook(module, (grad_input,), (grad_output,))`` in backward().\n\n"
         "``grad_input`` is None if the input needs no gradient; what the hook returns replaces "
         "it.",
         kHook, kHandle);
}

}  // namespace

Tensor PythonModule::forward(const Tensor& input) {
  const py::gil_scoped_acquire gil;
  const py::function forward = py::get_override(static_cast<const nn::Module*>(this), "forward");
  if (!forward) throw py::type_error(class_name() + " defines no forward(self, input)");
  const py::object result = forward(input);
  Tensor output = main_output(result);
  if (output.defined()) return output;
  throw py::type_error("forward of " + class_name() + " returned " +
                       Py_TYPE(result.ptr())->tp_name + ", not a Tensor");
}

std::string PythonModule::class_name() const {
  const py::gil_scoped_acquire gil;
  const py::object self =
      py::cast(static_cast<const nn::Module*>(this), py::return_value_policy::reference);
  return Py_TYPE(self.ptr())->tp_name;
}

void bind_nn_module(py::module_& m) {
  py::class_<RemovableHandle>(m, "RemovableHandle", "What registering a hook returns.")
      .def(
          "remove", [](const RemovableHandle& handle) { handle.remove(); },
          "Remove the hook; once is enough, twice does no harm.");
  py::class_<nn::Module::IncompatibleKeys>(m, "IncompatibleKeys",
                                           "What load_state_dict(..., strict=False) returns.")
      .def_readonly("missing_keys", &nn::Module::IncompatibleKeys::missing,
                    "Names of the module that the state lacks, a list of str.")
      .def_readonly("unexpected_keys", &nn::Module::IncompatibleKeys::unexpected,
                    "Names of the state that the module has not, a list of str.");
  ModuleClass cls(m, "Module", R"(A layer or a model.

Derive from it, call ``super().__init__()``, assign layers and parameters (Tensors that require
grad) as attributes, and define ``forward``, which may take and return anything; to be part of
a Sequential it takes one Tensor. Names are PyTorch's: "0.weight", "fc.bias".)",
                  py::dynamic_attr());
  cls.def(py::init<>())
      .def("forward", &nn::Module::forward, py::arg("input"), ReleaseGil(),
           "The output for one ``input``, of a shape that the class says; InvalidArgumentError on "
           "others.")
      .def("__call__", &call_module, "What forward() returns, between the hooks.")
      .def("extra_repr", &nn::Module::extra_repr,
           "What stands in the parentheses after the name when the module prints; override it in "
           "your own.")
      .def("__repr__", &repr_of_module,
           "The name, ``extra_repr()``, and the sub-modules one per line, indented.");
  m.def("_is_parameter", &nn::is_parameter, py::arg("tensor"));
  m.def("_make_parameter", &nn::make_parameter, py::arg("leaf"));
  def_parts(cls);
  def_state(cls);
  def_switches(cls);
  def_hooks(cls);
}

}  // namespace hvd::python
