#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/optim.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizer.h"

namespace hvd::python {
namespace {

// A parameter group as a dict: "params" and the options by name. Refers to the optimizer, so that
// changes take effect.
class GroupView {
 public:
  GroupView(std::shared_ptr<optim::Optimizer> optimizer, std::size_t index)
      : optimizer_(std::move(optimizer)), index_(index) {}

  optim::ParamGroup& group() const { return optimizer_->param_groups().at(index_); }

  py::object get(const std::string& key) const {
    if (key == "params") return py::cast(group().params);
    const auto found = group().options.find(key);
    if (found == group().options.end()) throw py::key_error(key);
    return py::float_(found->second);
  }
  void set(const std::string& key, double value) const {
    const auto found = group().options.find(key);
    if (found == group().options.end()) throw py::key_error(key);
    found->second = value;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys = {"params"};
    for (const auto& [key, value] : group().options) keys.push_back(key);
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

std::vector<optim::ParamGroup> groups_from(const py::iterable& params) {
  std::vector<optim::ParamGroup> groups;
  std::vector<Tensor> plain;
  for (const py::handle& item : params) {
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
      } else {
        group.options[name] = value.cast<double>();
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
py::dict state_of(optim::Optimizer& optimizer, const Tensor& param) {
  py::dict dict;
  const auto found = optimizer.state().find(param.id());
  if (found == optimizer.state().end()) return dict;
  dict["step"] = found->second.steps;
  for (const auto& [name, tensor] : found->second.tensors) dict[py::str(name)] = tensor;
  return dict;
}

void bind_group_view(py::module_& m) {
  py::class_<GroupView>(m, "ParamGroup",
                        "Parameters and their options, used like a dict: group[\"lr\"] = 0.1.")
      .def("__getitem__", &GroupView::get, py::arg("key"))
      .def("__setitem__", &GroupView::set, py::arg("key"), py::arg("value"))
      .def("__contains__",
           [](const GroupView& view, const std::string& key) {
             return key == "params" || view.group().options.count(key) != 0;
           })
      .def("__len__", [](const GroupView& view) { return view.keys().size(); })
      .def("__iter__", [](const GroupView& view) { return py::iter(py::cast(view.keys())); })
      .def("keys", &GroupView::keys, "\"params\" and the names of the options.")
      .def(
          "items",
          [](const GroupView& view) {
            py::list items;
            for (const std::string& key : view.keys()) {
              items.append(py::make_tuple(key, view.get(key)));
            }
            return items;
          },
          "(key, value) for every key.");
}

void bind_base(py::module_& m) {
  py::classh<optim::Optimizer>(m, "Optimizer", "Applies gradients to parameters.")
      .def("step_parameters", &optim::Optimizer::step_parameters, py::arg("params"), ReleaseGil(),
           "What step() does, for these parameters alone; doing all of them one after the other is "
           "a "
           "step.\n\nRaises:\n    InvalidArgumentError: one is not of this optimizer; nothing is "
           "changed then.")
      .def("step", &optim::Optimizer::step, ReleaseGil(),
           "Update all parameters that have a gradient, in place.")
      .def("zero_grad", &optim::Optimizer::zero_grad, py::arg("set_to_none") = true, ReleaseGil(),
           "Drop all gradients, or set them to zero.")
      .def_property_readonly("param_groups", &param_groups,
                             "List of dict-like groups; options may be changed between steps.")
      .def(
          "add_param_group",
          [](optim::Optimizer& optimizer, const py::dict& group) {
            optimizer.add_param_group(std::move(groups_from(py::make_tuple(group)).front()));
          },
          py::arg("group"),
          "Add {\"params\": [...], option: number}; missing options take defaults.")
      .def(
          "state_dict", [](optim::Optimizer& self) { return to_dict(self.state_dict()); },
          "Options and state as a dict name -> Tensor, for checkpoints.")
      .def(
          "load_state_dict",
          [](optim::Optimizer& self, const py::handle& state) {
            self.load_state_dict(named_tensors_from(state));
          },
          py::arg("state"),
          R"(Copy such a state in.

Raises:
    InvalidArgumentError: an entry is missing, unexpected or does not fit; nothing is changed.)")
      .def("state_of", &state_of, py::arg("param"),
           "State of one parameter: {\"step\": int, name: Tensor}; empty before its first step.");
}

// What torch.nn.utils takes: one Tensor or several.
std::vector<Tensor> tensors_from(const py::handle& parameters) {
  if (py::isinstance<Tensor>(parameters)) return {parameters.cast<Tensor>()};
  return py::list(py::reinterpret_borrow<py::object>(parameters)).cast<std::vector<Tensor>>();
}

void bind_clipping(py::module_& m) {
  m.def(
      "clip_grad_norm_",
      [](const py::handle& parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
        const std::vector<Tensor> params = tensors_from(parameters);
        const py::gil_scoped_release nogil;
        return optim::clip_grad_norm_(params, max_norm, {norm_type, error_if_nonfinite});
      },
      py::arg("parameters"), py::arg("max_norm"), py::arg("norm_type") = 2.0,
      py::arg("error_if_nonfinite") = false,
      R"(Scale gradients by one factor, so that their joint norm is at most ``max_norm``.

Args:
    parameters: a Tensor or several; those without a gradient are skipped.
    max_norm: above 0.
    norm_type: order of the norm, above 0; ``float("inf")`` is the largest magnitude.
    error_if_nonfinite: raise, and change nothing, when the norm is infinite or NaN.

Returns:
    The norm that the gradients had, a float.

Raises:
    InvalidArgumentError: an argument is out of range, or the norm is not finite.)");
  m.def(
      "clip_grad_value_",
      [](const py::handle& parameters, double clip_value) {
        const std::vector<Tensor> params = tensors_from(parameters);
        const py::gil_scoped_release nogil;
        optim::clip_grad_value_(params, clip_value);
      },
      py::arg("parameters"), py::arg("clip_value"),
      R"(Bring every element of the gradients into [-clip_value, clip_value]; NaN stays.

Raises:
    InvalidArgumentError: ``clip_value`` is below 0.)");
}

}  // namespace

void bind_optim(py::module_& m) {
  bind_group_view(m);
  bind_base(m);
  bind_optimizers(m);
  bind_clipping(m);
  bind_lr_schedulers(m);
}

}  // namespace hvd::python
