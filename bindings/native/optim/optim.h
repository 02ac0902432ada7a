#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native/bindings.h"
#include "horovod_cpp/optim/lr_scheduler.h"
#include "horovod_cpp/optim/rule_optimizer.h"

// The parts of bind_optim(), and optimizers and learning rate schedules that are written in Python.
namespace hvd::python {

void bind_optimizers(py::module_& m);
void bind_lr_schedulers(py::module_& m);

// What views that are used like a dict have in common.
template <typename View>
void def_keys(py::class_<View>& cls) {
  cls.def("__contains__", &View::contains, py::arg("key"), "Whether it has the key.")
      .def(
          "__len__", [](const View& view) { return view.keys().size(); }, "Number of keys.")
      .def(
          "__iter__",
          [](const View& view) -> py::typing::Iterator<py::str> {
            return py::iter(py::cast(view.keys()));
          },
          "The keys.")
      .def("keys", &View::keys, "The keys, a list of str.");
}

// What an optimizer is made for: tensors, or dicts {"params": tensors, option: number}.
std::vector<optim::ParamGroup> groups_from(const py::handle& params);

// Groups, options and state are those of the native optimizers; step() is Python's.
class PythonOptimizer : public optim::RuleOptimizer, public py::trampoline_self_life_support {
 public:
  PythonOptimizer(std::vector<optim::ParamGroup> groups, const optim::Options& defaults);

  void step() override;
  // Throws UnsupportedError: Python's step() takes no list of parameters.
  void step_parameters(const std::vector<Tensor>& params) override;

 protected:
  void update(Tensor& param, const Tensor& grad, optim::ParamState& state,
              const optim::Options& options) override;
  // State tensors may have any name, shape and dtype.
  std::optional<optim::ParamState> take_param(optim::StateEntries& entries, const std::string& key,
                                              const Tensor& param) const override;

 private:
  [[noreturn]] void fail_without_step() const;
};

// lr_at() asks Python's get_lr(), which reads last_epoch and base_lrs.
class PythonScheduler : public optim::lr_scheduler::LRScheduler,
                        public py::trampoline_self_life_support {
 public:
  explicit PythonScheduler(optim::Optimizer& optimizer) : LRScheduler(optimizer) {}
  // Sets the options of epoch 0, once Python's half is there.
  void begin() { start(); }
  double lr_at(std::int64_t epoch, std::size_t group) const override;
  // The epoch that get_lr() is asked for, else the one in force.
  std::int64_t epoch() const { return asked_.value_or(last_epoch()); }

 private:
  mutable std::optional<std::int64_t> asked_;
};

// optimizer.state: what the steps left, by parameter.
void bind_optimizer_state(py::module_& m);
// Lets Python derive from Optimizer and LRScheduler.
void def_python_optimizer(py::classh<optim::Optimizer, PythonOptimizer>& cls);
void def_python_scheduler(py::classh<optim::lr_scheduler::LRScheduler, PythonScheduler>& cls);

}  // namespace hvd::python
