#include <pybind11/stl.h>

#include <memory>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "bindings/native/optim/optim.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizer.h"

namespace hvd::python {
namespace {

constexpr const char* kInitialLr = "initial_lr";  // where schedules start from, once there is one

// A parameter group as a dict: "params" and the options by name. Refers to the optimizer, so that
// changes take effect.
class GroupView {
 public:
  GroupView(std::shared_ptr<optim::Optimizer> optimizer, std::size_t index)
      : optimizer_(std::move(optimizer)), index_(index) {}

  optim::ParamGroup& group() const { return optimizer_->param_groups().at(index_); }

  Anything get(const std::string& key) const {
    if (key == "params") return py::cast(group().params);
    if (key == kInitialLr && group().initial_lr) return py::float_(*group().initial_lr);
    const auto found = group().options.find(key);
    if (found == group().options.end()) throw py::key_error(key);
    return py::float_(found->second);
  }
  void set(const std::string& key, Number value) const {
    const auto found = group().options.find(key);
    if (found == group().options.end()) throw py::key_error(key);
    found->second = value;
  }
  bool contains(const std::string& key) const {
    return key == "params" || group().options.count(key) != 0 ||
           (key == kInitialLr && group().initial_lr);
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys = {"params"};
    for (const auto& [key, value] : group().options) keys.push_back(key);
    if (group().initial_lr) keys.emplace_back(kInitialLr);
    return keys;
  }

 private:
  std::shared_ptr<optim::Optimizer> optimizer_;
  std::size_t index_;
};

std::vector<GroupView> param_groups(const std::shared_ptr<optim::Optimizer>& optimizer) {
  std::vector<GroupView> groups;
  for (std::size_t i = 0; i < optimizer->param_groups().size(); ++i) {
    groups.emplace_back(optimizer, i);
  }
  return groups;
}

}  // namespace

std::vector<optim::ParamGroup> groups_from(const py::handle& params) {
  std::vector<optim::ParamGroup> groups;
  std::vector<Tensor> plain;
  for (const py::handle item : py::iter(params)) {
    if (py::isinstance<Tensor>(item)) {
      plain.push_back(item.cast<Tensor>());
      continue;
    }
    if (!py::isinstance<py::dict>(item)) {
      throw py::type_error("an optimizer takes Tensors or dicts with \"params\", not " +
                           std::string(Py_TYPE(item.ptr())->tp_name));
    }
    optim::ParamGroup group;
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(item)) {
      const auto name = key.cast<std::string>();
      if (name == "params") {
        group.params =
            py::list(py::reinterpret_borrow<py::object>(value)).cast<std::vector<Tensor>>();
      } else if (name == kInitialLr) {
        group.initial_lr = value.cast<Number>();
      } else {
        group.options[name] = value.cast<Number>();
      }
    }
    groups.push_back(std::move(group));
  }
  if (!plain.empty() && !groups.empty()) {
    throw py::type_error("an optimizer takes Tensors or dicts, not a mixture of them");
  }
  if (groups.empty()) groups.push_back({std::move(plain), {}});
  return groups;
}

namespace {

// The tensors of one parameter's state by name, and "step".
Typed<"dict[str, Tensor | int]"> state_of(optim::Optimizer& optimizer, const Tensor& param) {
  py::dict dict;
  const auto found = optimizer.state().find(param.id());
  if (found == optimizer.state().end()) return dict;
  dict["step"] = found->second.steps;
  for (const auto& [name, tensor] : found->second.tensors) dict[py::str(name)] = tensor;
  return dict;
}

void bind_group_view(py::module_& m) {
  py::class_<GroupView> cls(m, "ParamGroup",
                            "\"params\" and the options, used like a dict: group[\"lr\"] = 0.1.");
  def_keys(cls);
  cls.def("__getitem__", &GroupView::get, py::arg("key"),
          "The parameters, or the option, a float; KeyError without.")
      .def("__setitem__", &GroupView::set, py::arg("key"), py::arg("value"),
           "Change an option; KeyError unless there is one of this name.")
      .def(
          "get",
          [](const GroupView& view, const std::string& key, const Anything& otherwise) {
            return view.contains(key) ? view.get(key) : otherwise;
          },
          py::arg("key"), py::arg("default") = py::none(), "The value of ``key``, or ``default``.")
      .def(
          "items", [](const GroupView& view) -> Typed<"list[tuple[str, typing.Any]]"> {
            py::list items;
            for (const std::string& key : view.keys()) {
              items.append(py::make_tuple(key, view.get(key)));
            }
            return items;
          },
          "(key, value) for every key.");
}

// All but a DistributedOptimizer.
optim::RuleOptimizer& with_rule(optim::Optimizer& optimizer) {
  auto* found = dynamic_cast<optim::RuleOptimizer*>(&optimizer);
  if (found != nullptr) return *found;
  throw py::attribute_error("defaults: of the optimizer that this one wraps");
}

using Closure = Typed<"collections.abc.Callable[[], typing.Any] | None">;

Anything step(optim::Optimizer& optimizer, const Closure& closure) {
  py::object loss = closure.is_none() ? py::none() : closure();
  const WithoutGil nogil;
  optimizer.step();
  return loss;
}

using OptimizerClass = py::classh<optim::Optimizer, PythonOptimizer>;

void def_groups(OptimizerClass& cls) {
  cls.def_property_readonly(
         "defaults", [](optim::Optimizer& self) { return with_rule(self).defaults(); },
         "The options that a group takes where it says nothing, a dict name -> float.")
      .def("_set_defaults",
           [](optim::Optimizer& self, const optim::Options& defaults) {
             with_rule(self).set_defaults(defaults);
           })
      .def_property_readonly("param_groups", &param_groups,
                             "List of dict-like groups; options may be changed between steps.");
  define(
      cls, "add_param_group",
      [](optim::Optimizer& optimizer,
         const Typed<"collections.abc.Mapping[str, typing.Any]">& group) {
        optimizer.add_param_group(std::move(groups_from(py::make_tuple(group)).front()));
      },
      "Add a group.",
      Arg("group", "{\"params\": [...], option: number}; missing options take defaults."),
      Invalid{"no parameters, one that is known, or an unknown option."});
}

void bind_optimizer_base(py::module_& m) {
  OptimizerClass cls(m, "Optimizer",
                     R"(Applies gradients to parameters.

Derive from it to write one in Python: call ``super().__init__(params, {"lr": lr})`` and define
``step(self, closure=None)``, which goes over ``param_groups``, reads ``param.grad`` (None: skip),
keeps what it needs in ``self.state[param]`` and changes parameters within ``hvd.no_grad()``. Such an
optimizer works with schedules, DistributedOptimizer and checkpoints like the native ones.)");
  def_python_optimizer(cls);
  def_groups(cls);
  define(cls, "step_parameters", &optim::Optimizer::step_parameters,
         "What step() does, for some parameters alone; doing all of them one after the other is a "
         "step.",
         Arg("params", "Tensors, of any shape."), ReleaseGil(),
         Invalid{"one is not of this optimizer; nothing is changed then."});
  define(cls, "step", &step, "Update all parameters that have a gradient, in place.",
         Arg("closure",
             "a function that computes the gradients again and returns the loss; called first.") =
             py::none(),
         Returns{"What ``closure`` returned; None without one."});
  cls.def("zero_grad", given<"set_to_none">(&optim::Optimizer::zero_grad),
          py::arg("set_to_none") = true, ReleaseGil(),
          "Drop all gradients, or, without ``set_to_none``, set them to zero.")
      .def(
          "state_dict", [](optim::Optimizer& self) { return to_dict(self.state_dict()); },
          "Options and state as a dict name -> Tensor, for checkpoints.")
      .def("state_of", &state_of, py::arg("param"),
           "State of the Tensor ``param``, of any shape, a dict {\"step\": int, name: Tensor}; "
           "empty before its\nfirst step, never raises.");
  define(
      cls, "load_state_dict",
      [](optim::Optimizer& self, const StateLike& state) {
        self.load_state_dict(named_tensors_from(state));
      },
      "Copy such a state in.", Arg("state", "what state_dict() returned, or the same with arrays."),
      Invalid{"an entry is missing, unexpected or does not fit; nothing is changed."});
}

// What torch.nn.utils takes: one Tensor or several.
std::vector<Tensor> tensors_from(const py::handle& parameters) {
  if (py::isinstance<Tensor>(parameters)) return {parameters.cast<Tensor>()};
  return py::list(py::reinterpret_borrow<py::object>(parameters)).cast<std::vector<Tensor>>();
}

void bind_clipping(py::module_& m) {
  define(
      m, "clip_grad_norm_",
      [](const OneOrManyTensors& parameters, Number max_norm, Number norm_type,
         Flag<"error_if_nonfinite"> error_if_nonfinite) {
        const std::vector<Tensor> params = tensors_from(parameters);
        const WithoutGil nogil;
        return optim::clip_grad_norm_(params, max_norm, {norm_type, error_if_nonfinite});
      },
      "Scale gradients by one factor, so that their joint norm is at most ``max_norm``.",
      Arg("parameters",
          "a Tensor or several, of any shapes; those without a gradient are skipped."),
      Arg("max_norm", "above 0."),
      Arg("norm_type", "order of the norm, above 0; ``float(\"inf\")`` is the largest magnitude.") =
          2.0,
      Arg("error_if_nonfinite", "raise, and change nothing, when the norm is infinite or NaN.") =
          false,
      Returns{"The norm that the gradients had, a float."},
      Invalid{"an argument is out of range, or the norm is not finite."});
  define(
      m, "clip_grad_value_",
      [](const OneOrManyTensors& parameters, Number clip_value) {
        const std::vector<Tensor> params = tensors_from(parameters);
        const WithoutGil nogil;
        optim::clip_grad_value_(params, clip_value);
      },
      "Bring every element of the gradients into [-clip_value, clip_value]; NaN stays.",
      Arg("parameters", "a Tensor or several; those without a gradient are skipped."),
      Arg("clip_value", "largest magnitude, at least 0."), Invalid{"``clip_value`` is below 0."});
}

}  // namespace

void bind_optim(py::module_& m) {
  bind_group_view(m);
  bind_optimizer_state(m);
  bind_optimizer_base(m);
  bind_optimizers(m);
  bind_clipping(m);
  bind_lr_schedulers(m);
}

}  // namespace hvd::python
