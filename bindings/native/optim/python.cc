#include "bindings/native/optim/optim.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/state_entries.h"

namespace hvd::python {
namespace {

using optim::Options;
using optim::ParamState;

std::string class_of(const py::handle& self) {
  return Py_TYPE(self.ptr())->tp_name;
}

// The state of one parameter as a dict: Tensors by name, and the int "step".
class StateView {
 public:
  StateView(std::shared_ptr<optim::Optimizer> optimizer, const Tensor& param)
      : optimizer_(std::move(optimizer)), param_(param) {}

  Typed<"Tensor | int"> get(const std::string& key) const {
    const ParamState* state = find();
    if (key == "step") return py::int_(state == nullptr ? 0 : state->steps);
    if (state == nullptr || state->tensors.count(key) == 0) throw py::key_error(key);
    return py::cast(state->tensors.at(key));
  }
  void set(const std::string& key, const Typed<"Tensor | int">& value) const {
    if (key == "step" && py::isinstance<py::int_>(value)) {
      const auto steps = value.cast<std::int64_t>();
      if (steps < 0) throw InvalidArgumentError("the \"step\" of a parameter is ", steps);
      state().steps = steps;
    } else if (key != "step" && py::isinstance<Tensor>(value)) {
      state().tensors[key] = value.cast<Tensor>();
    } else {
      throw py::type_error("the state of a parameter holds Tensors and the int \"step\", not " +
                           class_of(value) + " as \"" + key + "\"");
    }
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    const ParamState* state = find();
    if (state == nullptr) return keys;
    if (state->steps > 0) keys.emplace_back("step");
    for (const auto& [name, tensor] : state->tensors) keys.push_back(name);
    return keys;
  }
  bool contains(const std::string& key) const {
    const ParamState* state = find();
    return state != nullptr && (key == "step" ? state->steps > 0 : state->tensors.count(key) != 0);
  }

 private:
  const ParamState* find() const {
    const auto found = optimizer_->state().find(param_.id());
    return found == optimizer_->state().end() ? nullptr : &found->second;
  }
  ParamState& state() const { return optimizer_->state()[param_.id()]; }

  std::shared_ptr<optim::Optimizer> optimizer_;
  Tensor param_;
};

struct StateMap {
  std::shared_ptr<optim::Optimizer> optimizer;
};

struct OpenScheduler : optim::lr_scheduler::LRScheduler {
  using LRScheduler::groups;
  using LRScheduler::initial_lr;
};

}  // namespace

PythonOptimizer::PythonOptimizer(std::vector<optim::ParamGroup> groups, const Options& defaults)
    : RuleOptimizer(std::move(groups), {defaults, {}, {}, nullptr}) {}

void PythonOptimizer::fail_without_step() const {
  throw py::type_error("an Optimizer written in Python defines step(self, closure=None)");
}

void PythonOptimizer::step() {
  const py::gil_scoped_acquire gil;
  const py::function step = py::get_override(static_cast<const optim::Optimizer*>(this), "step");
  if (!step) fail_without_step();
  step();
}

void PythonOptimizer::step_parameters(const std::vector<Tensor>& /*params*/) {
  throw UnsupportedError(
      "an optimizer written in Python updates all parameters at once: no step_parameters(), and no "
      "overlap_step in a DistributedOptimizer around it");
}

void PythonOptimizer::update(Tensor& /*param*/, const Tensor& /*grad*/, ParamState& /*state*/,
                             const Options& /*options*/) {
  fail_without_step();
}

std::optional<ParamState> PythonOptimizer::take_param(optim::StateEntries& entries,
                                                      const std::string& key,
                                                      const Tensor& /*param*/) const {
  std::map<std::string, Tensor> taken = entries.take_all(key);
  const auto steps = taken.extract("steps");
  if (!steps) return std::nullopt;
  ParamState state;
  state.steps = static_cast<std::int64_t>(steps.mapped().item());
  for (const auto& [name, tensor] : taken) state.tensors[name] = tensor.detach().clone();
  return state;
}

double PythonScheduler::lr_at(std::int64_t epoch, std::size_t group) const {
  const py::gil_scoped_acquire gil;
  const py::function get_lr = py::get_override(static_cast<const LRScheduler*>(this), "get_lr");
  if (!get_lr) throw py::type_error("an LRScheduler written in Python defines get_lr(self)");
  const auto before = std::exchange(asked_, epoch);
  std::vector<double> rates;
  try {
    rates = get_lr().cast<std::vector<double>>();
  } catch (...) {
    asked_ = before;
    throw;
  }
  asked_ = before;
  if (rates.size() == groups()) return rates.at(group);
  throw InvalidArgumentError("get_lr() returned ", rates.size(), " rates for ", groups(),
                             " parameter groups");
}

void bind_optimizer_state(py::module_& m) {
  py::class_<StateView> cls(
      m, "ParamState",
      "The state of one parameter, used like a dict: Tensors by name, and the int \"step\", 0 at "
      "first; no keys before the first step.");
  def_keys(cls);
  cls.def("__getitem__", &StateView::get, py::arg("key"), "The entry; KeyError without.")
      .def("__setitem__", &StateView::set, py::arg("key"), py::arg("value"),
           "Set an entry; TypeError unless a Tensor, or an int for \"step\", which is not "
           "negative. An optimizer of this library takes tensors of the parameter's shape and "
           "dtype (float32 where that is half): step() raises InvalidArgumentError otherwise.");
  py::class_<StateMap>(m, "OptimizerState", "State by parameter: optimizer.state[param].")
      .def(
          "__getitem__",
          [](const StateMap& map, const Tensor& param) { return StateView(map.optimizer, param); },
          py::arg("param"), "The ParamState of a parameter; empty before its first step.")
      .def(
          "__contains__",
          [](const StateMap& map, const Tensor& param) {
            return map.optimizer->state().count(param.id()) != 0;
          },
          py::arg("param"), "Whether the parameter has state.")
      .def(
          "__len__", [](const StateMap& map) { return map.optimizer->state().size(); },
          "Number of parameters that have state.");
}

void def_python_optimizer(py::classh<optim::Optimizer, PythonOptimizer>& cls) {
  cls.def(py::init([](const ParamsLike& params, const Options& defaults) {
            return std::make_unique<PythonOptimizer>(groups_from(params), defaults);
          }),
          py::arg("params"), py::arg("defaults"),
          R"(What a subclass written in Python calls.

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    defaults: the options and their defaults, numbers; "lr" if schedules are to be used.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option that is not in ``defaults``.)")
      .def_property_readonly(
          "state", [](const std::shared_ptr<optim::Optimizer>& self) { return StateMap{self}; },
          "What the steps left: ``state[param]`` is a dict-like ParamState.");
}

void def_python_scheduler(py::classh<optim::lr_scheduler::LRScheduler, PythonScheduler>& cls) {
  using optim::lr_scheduler::LRScheduler;
  cls.def(py::init_alias<optim::Optimizer&>(), py::arg("optimizer"), py::keep_alive<1, 2>());
  // The first call of get_lr() needs the Python half, which is there after __init__ only.
  const py::object plain = cls.attr("__init__");
  cls.attr("__init__") = py::cpp_function(
      [plain](const py::object& self, const Typed<"Optimizer">& optimizer) {
        plain(self, optimizer);
        dynamic_cast<PythonScheduler&>(self.cast<LRScheduler&>()).begin();
      },
      py::is_method(cls), py::arg("optimizer"),
      "What a subclass written in Python calls, last: it asks get_lr() for epoch 0.");
  cls.def_property_readonly("optimizer", &LRScheduler::optimizer,
                            py::return_value_policy::reference,
                            "The optimizer whose groups are scheduled.")
      .def_property_readonly(
          "base_lrs",
          [](const LRScheduler& self) {
            std::vector<double> rates;
            for (std::size_t g = 0; g < (self.*&OpenScheduler::groups)(); ++g) {
              rates.push_back((self.*&OpenScheduler::initial_lr)(g));
            }
            return rates;
          },
          "Each group's learning rate at epoch 0, a list of floats.")
      .def(
          "get_lr",
          [](const LRScheduler& self) {
            std::vector<double> rates;
            for (std::size_t g = 0; g < (self.*&OpenScheduler::groups)(); ++g) {
              rates.push_back(self.lr_at(self.last_epoch(), g));
            }
            return rates;
          },
          R"(Each group's learning rate at ``last_epoch``, a list of floats.

A schedule written in Python defines it, as a function of ``last_epoch`` and ``base_lrs`` alone.)");
}

}  // namespace hvd::python
