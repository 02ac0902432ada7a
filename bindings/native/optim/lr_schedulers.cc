#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "bindings/native/optim/optim.h"
#include "core/base/status.h"
#include "horovod_cpp/optim/lr_scheduler.h"

namespace hvd::python {
namespace {

using namespace optim::lr_scheduler;
using optim::Optimizer;

using OneOrMany = std::variant<Number, std::vector<Number>>;

std::vector<double> list_of(const OneOrMany& values) {
  if (const auto* one = std::get_if<Number>(&values)) return {*one};
  const auto& many = std::get<std::vector<Number>>(values);
  return {many.begin(), many.end()};
}

// The value that `text` names. Throws InvalidArgumentError listing both names.
template <typename T>
T choose(const char* option, const std::string& text, const char* first, T one, const char* second,
         T other) {
  if (text == first) return one;
  if (text == second) return other;
  throw InvalidArgumentError(std::string(option) + " '" + text + "': expected '" + first +
                             "' or '" + second + "'");
}

constexpr const char* kOptimizer = "optimizer: whose groups are scheduled; it is kept alive.";
constexpr const char* kArgumentRaises = "InvalidArgumentError: an argument is out of range.";

// State dicts and learning rates, which all schedules have.
template <typename Scheduler, typename... Bases>
void def_common(py::classh<Scheduler, Bases...>& cls) {
  cls.def_property_readonly(
         "last_epoch",
         [](const Scheduler& self) {
           if constexpr (std::is_same_v<Scheduler, LRScheduler>) {
             const auto* written_in_python = dynamic_cast<const PythonScheduler*>(&self);
             if (written_in_python != nullptr) return written_in_python->epoch();
           }
           return self.last_epoch();
         },
         "Epochs stepped so far; 0 at first. Within get_lr() the epoch it is asked for.")
      .def("get_last_lr", &Scheduler::get_last_lr,
           "Each group's learning rate in force, a list of floats.")
      .def(
          "state_dict", [](const Scheduler& self) { return to_dict(self.state_dict()); },
          "Dict name -> scalar Tensor, for checkpoints; functions and arguments are not in it.")
      .def(
          "load_state_dict",
          [](Scheduler& self, const StateLike& state) {
            self.load_state_dict(named_tensors_from(state));
          },
          py::arg("state"),
          class_doc("Copy such a state in and set the groups' options.",
                    {"state: what state_dict() gave."},
                    "InvalidArgumentError: an entry is missing, unexpected or does not fit; "
                    "nothing is changed.")
              .c_str());
}

void bind_scheduler_base(py::module_& m) {
  py::classh<LRScheduler, PythonScheduler> cls(m, "LRScheduler",
                                               R"(A learning rate schedule: a function of the epoch.

Derive from it to write one in Python: set attributes, call ``super().__init__(optimizer)`` and
define ``get_lr(self)``, which returns a rate for each group from ``last_epoch`` and ``base_lrs``.

"Epoch" is whatever step() counts: call it once an epoch or once a batch. The optimizer may be a
DistributedOptimizer; all ranks call step() alike.)",
                                               py::dynamic_attr());
  def_python_scheduler(cls);
  cls.def("step", &LRScheduler::step, "Go on to the next epoch and set the groups' options.")
      .def("lr_at", &LRScheduler::lr_at, py::arg("epoch"), py::arg("group") = 0,
           "The learning rate of parameter group number ``group`` at ``epoch``, a float; changes "
           "nothing.")
      .def("options_at", &LRScheduler::options_at, py::arg("epoch"), py::arg("group") = 0,
           "Dict of all options that the schedule sets for group number ``group`` at ``epoch``.");
  def_common(cls);
}

// The optimizer is kept alive.
using KeepOptimizer = py::keep_alive<1, 2>;

void bind_simple(py::module_& m) {
  py::classh<StepLR, LRScheduler>(
      m, "StepLR",
      class_doc("The initial rate times gamma^(epoch // step_size).",
                {kOptimizer, "step_size: epochs at one rate, at least 1.", "gamma: the factor."},
                kArgumentRaises)
          .c_str())
      .def(py::init<Optimizer&, Integer, Number>(), py::arg("optimizer"), py::arg("step_size"),
           py::arg("gamma") = 0.1, KeepOptimizer());
  py::classh<MultiStepLR, LRScheduler>(
      m, "MultiStepLR",
      class_doc("The initial rate times gamma^(number of milestones reached).",
                {kOptimizer, "milestones: epochs, ascending.", "gamma: the factor."},
                kArgumentRaises)
          .c_str())
      .def(py::init([](Optimizer& optimizer, const Integers& milestones, Number gamma) {
             return std::make_shared<MultiStepLR>(optimizer, list_of(milestones), gamma);
           }),
           py::arg("optimizer"), py::arg("milestones"), py::arg("gamma") = 0.1, KeepOptimizer());
  py::classh<ExponentialLR, LRScheduler>(
      m, "ExponentialLR",
      class_doc("The initial rate times gamma^epoch.",
                {kOptimizer, "gamma: the factor of an epoch."}, kArgumentRaises)
          .c_str())
      .def(py::init<Optimizer&, Number>(), py::arg("optimizer"), py::arg("gamma"), KeepOptimizer());
  py::classh<CosineAnnealingLR, LRScheduler>(
      m, "CosineAnnealingLR",
      class_doc(
          "Half a cosine wave from the initial rate to eta_min at T_max (Loshchilov and Hutter "
          "2017).",
          {kOptimizer, "T_max: the epoch of the lowest rate, at least 1.", "eta_min: that rate."},
          kArgumentRaises)
          .c_str())
      .def(py::init<Optimizer&, Integer, Number>(), py::arg("optimizer"), py::arg("T_max"),
           py::arg("eta_min") = 0.0, KeepOptimizer());
  py::classh<LinearLR, LRScheduler>(m, "LinearLR",
                                    class_doc("The initial rate times a factor on a straight line.",
                                              {kOptimizer, "start_factor: at epoch 0, in (0, 1].",
                                               "end_factor: from epoch total_iters on, in [0, 1].",
                                               "total_iters: length of the line, at least 1."},
                                              kArgumentRaises)
                                        .c_str())
      .def(py::init<Optimizer&, Number, Number, Integer>(), py::arg("optimizer"),
           py::arg("start_factor") = 1.0 / 3, py::arg("end_factor") = 1.0,
           py::arg("total_iters") = 5, KeepOptimizer());
}

void bind_composed(py::module_& m) {
  using Functions = std::variant<LambdaLR::Function, std::vector<LambdaLR::Function>>;
  py::classh<LambdaLR, LRScheduler>(
      m, "LambdaLR",
      class_doc(
          "The initial rate times lr_lambda(epoch).",
          {kOptimizer, "lr_lambda: a function from the epoch to a factor, or one for each group."},
          "InvalidArgumentError: not as many functions as groups.")
          .c_str())
      .def(py::init([](Optimizer& optimizer, const Functions& lr_lambda) {
             return std::visit(
                 [&](const auto& value) { return std::make_shared<LambdaLR>(optimizer, value); },
                 lr_lambda);
           }),
           py::arg("optimizer"), py::arg("lr_lambda"), KeepOptimizer());
  py::classh<SequentialLR, LRScheduler>(
      m, "SequentialLR",
      class_doc("One schedule after the other.",
                {kOptimizer, "schedulers: schedules of this optimizer.",
                 "milestones: number i begins, with its epoch 0, at milestones[i - 1]; ascending."},
                "InvalidArgumentError: milestones are not one fewer than schedules, or a schedule "
                "is of another\n        optimizer.")
          .c_str())
      .def(py::init([](Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                       const Integers& milestones) {
             return std::make_shared<SequentialLR>(optimizer, std::move(schedulers),
                                                   list_of(milestones));
           }),
           py::arg("optimizer"), py::arg("schedulers"), py::arg("milestones"), KeepOptimizer());
  py::classh<LearningRateWarmup, LRScheduler>(
      m, "LearningRateWarmup",
      class_doc("The linear scaling rule with gradual warm-up (Goyal et al. 2017), as Horovod's.",
                {"optimizer: its learning rate is that of one rank.",
                 "scale: factor that is reached: ``hvd.size()``.",
                 "warmup_epochs: passes over the data until then.",
                 "steps_per_epoch: step() calls a pass.",
                 "schedule: of this optimizer, multiplied by the factor; counts from the same 0."},
                kArgumentRaises)
          .c_str())
      .def(py::init([](Optimizer& optimizer, Number scale, Number warmup_epochs,
                       Integer steps_per_epoch,
                       std::optional<std::shared_ptr<LRScheduler>> schedule) {
             return std::make_shared<LearningRateWarmup>(
                 optimizer, LearningRateWarmupOptions{scale, warmup_epochs, steps_per_epoch},
                 schedule ? *std::move(schedule) : nullptr);
           }),
           py::arg("optimizer"), py::arg("scale"), py::arg("warmup_epochs") = 5.0,
           py::arg("steps_per_epoch") = 1, py::arg("schedule") = py::none(), KeepOptimizer());
}

void bind_one_cycle(py::module_& m) {
  py::classh<OneCycleLR, LRScheduler>(
      m, "OneCycleLR",
      class_doc("The one-cycle policy (Smith and Topin 2017), with PyTorch's formulas.",
                {kOptimizer, "max_lr: the highest rate, a number or one for each group.",
                 "total_steps: the calls of step() there will be.",
                 "pct_start: part of them in which the rate rises, within (0, 1).",
                 "anneal_strategy: \"cos\" or \"linear\".",
                 "cycle_momentum: move momentum (or Adam's first beta) the other way.",
                 "base_momentum: the lowest momentum.", "max_momentum: the highest.",
                 "div_factor: max_lr / div_factor is the first rate.",
                 "final_div_factor: the first rate / final_div_factor is the last one.",
                 "three_phase: fall back to the first rate before the last phase."},
                kArgumentRaises)
          .c_str())
      .def(py::init([](Optimizer& optimizer, const OneOrMany& max_lr, Integer total_steps,
                       Number pct_start, const std::string& anneal_strategy,
                       Flag<"cycle_momentum"> cycle_momentum, Number base_momentum,
                       Number max_momentum, Number div_factor, Number final_div_factor,
                       Flag<"three_phase"> three_phase) {
             const auto strategy = choose("OneCycleLR: anneal_strategy", anneal_strategy, "cos",
                                          AnnealStrategy::kCos, "linear", AnnealStrategy::kLinear);
             return std::make_shared<OneCycleLR>(
                 optimizer, OneCycleLROptions{list_of(max_lr), total_steps, pct_start, strategy,
                                              cycle_momentum, base_momentum, max_momentum,
                                              div_factor, final_div_factor, three_phase});
           }),
           py::arg("optimizer"), py::arg("max_lr"), py::arg("total_steps"),
           py::arg("pct_start") = 0.3, py::arg("anneal_strategy") = "cos",
           py::arg("cycle_momentum") = true, py::arg("base_momentum") = 0.85,
           py::arg("max_momentum") = 0.95, py::arg("div_factor") = 25.0,
           py::arg("final_div_factor") = 1e4, py::arg("three_phase") = false, KeepOptimizer());
}

void bind_plateau(py::module_& m) {
  py::classh<ReduceLROnPlateau> cls(
      m, "ReduceLROnPlateau",
      R"(Multiply the learning rates by a factor when a metric has stopped improving.

Over several ranks give step() a metric that is equal on all of them.

Args:
    optimizer: whose groups are scheduled; it is kept alive.
    mode: "min" if lower metrics are better, else "max".
    factor: what rates are multiplied by, below 1.
    patience: epochs without improvement that are accepted.
    threshold: least improvement that counts.
    threshold_mode: "rel" (a part of the best metric) or "abs".
    cooldown: epochs after a reduction that do not count.
    min_lr: lowest rate, a number or one for each group.
    eps: smaller changes of a rate are left out.

Raises:
    InvalidArgumentError: an argument is out of range.)",
      py::dynamic_attr());
  cls.def(py::init([](Optimizer& optimizer, const std::string& mode, Number factor,
                      Integer patience, Number threshold, const std::string& threshold_mode,
                      Integer cooldown, const OneOrMany& min_lr, Number eps) {
            const auto side = choose("ReduceLROnPlateau: mode", mode, "min", PlateauMode::kMin,
                                     "max", PlateauMode::kMax);
            const auto kind = choose("ReduceLROnPlateau: threshold_mode", threshold_mode, "rel",
                                     ThresholdMode::kRel, "abs", ThresholdMode::kAbs);
            return std::make_shared<ReduceLROnPlateau>(
                optimizer, ReduceLROnPlateauOptions{side, factor, patience, threshold, kind,
                                                    cooldown, list_of(min_lr), eps});
          }),
          py::arg("optimizer"), py::arg("mode") = "min", py::arg("factor") = 0.1,
          py::arg("patience") = 10, py::arg("threshold") = 1e-4, py::arg("threshold_mode") = "rel",
          py::arg("cooldown") = 0, py::arg("min_lr") = 0.0, py::arg("eps") = 1e-8, KeepOptimizer())
      .def("step", &ReduceLROnPlateau::step, py::arg("metric"),
           "Take the ``metric`` of the epoch that ends, a float.");
  def_common(cls);
}

}  // namespace

void bind_lr_schedulers(py::module_& m) {
  bind_scheduler_base(m);
  bind_simple(m);
  bind_composed(m);
  bind_one_cycle(m);
  bind_plateau(m);
}

}  // namespace hvd::python
