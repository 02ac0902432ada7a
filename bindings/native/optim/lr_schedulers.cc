#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "bindings/native/optim/optim.h"
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

constexpr Arg kOptimizer{"optimizer", "whose groups are scheduled; it is kept alive."};
constexpr Arg kGamma{"gamma", "the factor."};
constexpr Invalid kOutOfRange{"an argument is out of range."};
using KeepOptimizer = py::keep_alive<1, 2>;

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
          "Dict name -> scalar Tensor, for checkpoints; functions and arguments are not in it.");
  define(
      cls, "load_state_dict",
      [](Scheduler& self, const StateLike& state) {
        self.load_state_dict(named_tensors_from(state));
      },
      "Copy such a state in and set the groups' options.", Arg("state", "what state_dict() gave."),
      Invalid{"an entry is missing, unexpected or does not fit; nothing is changed."});
}

void bind_scheduler_base(py::module_& m) {
  py::classh<LRScheduler, PythonScheduler> cls(m, "LRScheduler",
                                               R"(A learning rate schedule: a function of the epoch.

Derive from it to write one in Python: set attributes, call ``super().__init__(optimizer)`` and
define ``get_lr(self)``, which returns a rate for each group from ``last_epoch`` and ``base_lrs``.

"Epoch" is whatever step() counts: call it once per epoch or once per batch. The optimizer may be a
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

template <typename Schedule, typename Init, typename... Parts>
void define_schedule(py::module_& m, const char* name, const char* what, Init&& init,
                     const Parts&... parts) {
  define_class<Schedule, LRScheduler>(m, name, what, std::forward<Init>(init), parts...,
                                      KeepOptimizer());
}

void bind_simple(py::module_& m) {
  define_schedule<StepLR>(m, "StepLR", "The initial rate times gamma^(epoch // step_size).",
                          py::init<Optimizer&, Integer, Number>(), kOptimizer,
                          Arg("step_size", "epochs at one rate, at least 1."), kGamma = 0.1,
                          kOutOfRange);
  define_schedule<MultiStepLR>(
      m, "MultiStepLR", "The initial rate times gamma^(number of milestones reached).",
      py::init([](Optimizer& optimizer, const Integers& milestones, Number gamma) {
        return std::make_shared<MultiStepLR>(optimizer, list_of(milestones), gamma);
      }),
      kOptimizer, Arg("milestones", "epochs, ascending."), kGamma = 0.1, kOutOfRange);
  define_schedule<ExponentialLR>(m, "ExponentialLR", "The initial rate times gamma^epoch.",
                                 py::init<Optimizer&, Number>(), kOptimizer,
                                 Arg("gamma", "the factor of an epoch."), kOutOfRange);
  define_schedule<CosineAnnealingLR>(
      m, "CosineAnnealingLR",
      "Half a cosine wave from the initial rate to eta_min at T_max (Loshchilov and Hutter 2017).",
      py::init<Optimizer&, Integer, Number>(), kOptimizer,
      Arg("T_max", "the epoch of the lowest rate, at least 1."), Arg("eta_min", "that rate.") = 0.0,
      kOutOfRange);
  define_schedule<LinearLR>(m, "LinearLR", "The initial rate times a factor on a straight line.",
                            py::init<Optimizer&, Number, Number, Integer>(), kOptimizer,
                            Arg("start_factor", "at epoch 0, in (0, 1].") = 1.0 / 3,
                            Arg("end_factor", "from epoch total_iters on, in [0, 1].") = 1.0,
                            Arg("total_iters", "length of the line, at least 1.") = 5, kOutOfRange);
}

void bind_composed(py::module_& m) {
  using Functions = std::variant<LambdaLR::Function, std::vector<LambdaLR::Function>>;
  define_schedule<LambdaLR>(
      m, "LambdaLR", "The initial rate times lr_lambda(epoch).",
      py::init([](Optimizer& optimizer, const Functions& lr_lambda) {
        return std::visit(
            [&](const auto& value) { return std::make_shared<LambdaLR>(optimizer, value); },
            lr_lambda);
      }),
      kOptimizer, Arg("lr_lambda", "a function from the epoch to a factor, or one for each group."),
      Invalid{"not as many functions as groups."});
  define_schedule<SequentialLR>(
      m, "SequentialLR", "One schedule after the other.",
      py::init([](Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                  const Integers& milestones) {
        return std::make_shared<SequentialLR>(optimizer, std::move(schedulers),
                                              list_of(milestones));
      }),
      kOptimizer, Arg("schedulers", "schedules of this optimizer."),
      Arg("milestones", "number i begins, with its epoch 0, at milestones[i - 1]; ascending."),
      Invalid{"milestones are not one fewer than schedules, or a schedule is of another\n"
              "        optimizer."});
  define_schedule<LearningRateWarmup>(
      m, "LearningRateWarmup",
      "The linear scaling rule with gradual warm-up (Goyal et al. 2017), as Horovod's.",
      py::init([](Optimizer& optimizer, Number scale, Number warmup_epochs, Integer steps_per_epoch,
                  std::optional<std::shared_ptr<LRScheduler>> schedule) {
        return std::make_shared<LearningRateWarmup>(
            optimizer, LearningRateWarmupOptions{scale, warmup_epochs, steps_per_epoch},
            schedule ? *std::move(schedule) : nullptr);
      }),
      Arg("optimizer", "its learning rate is that of one rank."),
      Arg("scale", "factor that is reached: ``hvd.size()``."),
      Arg("warmup_epochs", "passes over the data until then.") = 5.0,
      Arg("steps_per_epoch", "step() calls per pass.") = 1,
      Arg("schedule", "of this optimizer, multiplied by the factor; counts from the same 0.") =
          py::none(),
      kOutOfRange);
}

void bind_one_cycle(py::module_& m) {
  define_schedule<OneCycleLR>(
      m, "OneCycleLR", "The one-cycle policy (Smith and Topin 2017), with PyTorch's formulas.",
      py::init([](Optimizer& optimizer, const OneOrMany& max_lr, Integer total_steps,
                  Number pct_start, const std::string& anneal_strategy,
                  Flag<"cycle_momentum"> cycle_momentum, Number base_momentum, Number max_momentum,
                  Number div_factor, Number final_div_factor, Flag<"three_phase"> three_phase) {
        const auto strategy = named_value<AnnealStrategy>(
            "OneCycleLR: anneal_strategy", anneal_strategy,
            {{"cos", AnnealStrategy::kCos}, {"linear", AnnealStrategy::kLinear}});
        return std::make_shared<OneCycleLR>(
            optimizer, OneCycleLROptions{list_of(max_lr), total_steps, pct_start, strategy,
                                         cycle_momentum, base_momentum, max_momentum, div_factor,
                                         final_div_factor, three_phase});
      }),
      kOptimizer, Arg("max_lr", "the highest rate, a number or one for each group."),
      Arg("total_steps", "the calls of step() there will be."),
      Arg("pct_start", "part of them in which the rate rises, within (0, 1).") = 0.3,
      Arg("anneal_strategy", "\"cos\" or \"linear\".") = "cos",
      Arg("cycle_momentum", "move momentum (or Adam's first beta) the other way.") = true,
      Arg("base_momentum", "the lowest momentum.") = 0.85,
      Arg("max_momentum", "the highest.") = 0.95,
      Arg("div_factor", "max_lr / div_factor is the first rate.") = 25.0,
      Arg("final_div_factor", "the first rate / final_div_factor is the last one.") = 1e4,
      Arg("three_phase", "fall back to the first rate before the last phase.") = false,
      kOutOfRange);
}

void bind_plateau(py::module_& m) {
  py::classh<ReduceLROnPlateau> cls(m, "ReduceLROnPlateau", py::dynamic_attr());
  define_init(
      cls,
      "Multiply the learning rates by a factor when a metric has stopped improving.\n\n"
      "Over several ranks give step() a metric that is equal on all of them.",
      py::init([](Optimizer& optimizer, const std::string& mode, Number factor, Integer patience,
                  Number threshold, const std::string& threshold_mode, Integer cooldown,
                  const OneOrMany& min_lr, Number eps) {
        const auto side =
            named_value<PlateauMode>("ReduceLROnPlateau: mode", mode,
                                     {{"min", PlateauMode::kMin}, {"max", PlateauMode::kMax}});
        const auto kind = named_value<ThresholdMode>(
            "ReduceLROnPlateau: threshold_mode", threshold_mode,
            {{"rel", ThresholdMode::kRel}, {"abs", ThresholdMode::kAbs}});
        return std::make_shared<ReduceLROnPlateau>(
            optimizer, ReduceLROnPlateauOptions{side, factor, patience, threshold, kind, cooldown,
                                                list_of(min_lr), eps});
      }),
      kOptimizer, Arg("mode", "\"min\" if lower metrics are better, else \"max\".") = "min",
      Arg("factor", "what rates are multiplied by, below 1.") = 0.1,
      Arg("patience", "epochs without improvement that are accepted.") = 10,
      Arg("threshold", "least improvement that counts.") = 1e-4,
      Arg("threshold_mode", "\"rel\" (a part of the best metric) or \"abs\".") = "rel",
      Arg("cooldown", "epochs after a reduction that do not count.") = 0,
      Arg("min_lr", "lowest rate, a number or one for each group.") = 0.0,
      Arg("eps", "smaller changes of a rate are left out.") = 1e-8, kOutOfRange, KeepOptimizer());
  cls.def("step", &ReduceLROnPlateau::step, py::arg("metric"),
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
