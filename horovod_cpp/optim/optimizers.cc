#include "horovod_cpp/optim/optimizers.h"

#include <array>
#include <cmath>
#include <string>
#include <tuple>

#include "core/base/status.h"
#include "horovod_cpp/optim/rules.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd::optim {

#define HVD_LEVEL(name, isa)     \
  namespace name {               \
  void fill(UpdateTable& table); \
  }
HVD_ISA_LEVELS
#undef HVD_LEVEL

const UpdateTable& update_table(Isa isa) {
#define HVD_LEVEL(name, isa) {Isa::isa, name::fill},
  const std::vector<CompiledFor<UpdateTable>> compiled = {HVD_ISA_LEVELS};
#undef HVD_LEVEL
  static const auto* const tables =
      new std::map<Isa, UpdateTable>(tables_for_this_processor(compiled));
  return tables->at(isa);
}

const UpdateTable& update_table() {
  static const UpdateTable& chosen = update_table(isa::table().instructions);
  return chosen;
}

namespace {

enum class Range { kAny, kFinite, kNotNegative, kBelowOne, kAtMostOne };

struct Option {
  const char* name;
  double value;
  Range range = Range::kAny;
};

struct StateTensor {
  const char* name;
  const char* needs = nullptr;    // the option that is 0 where there is no such tensor
  const char* initial = nullptr;  // the option that it is filled with at first; otherwise zeros
};

// NaN is never in range.
void check_range(const Option& option, double value) {
  const auto require = [&](bool condition, const char* expected) {
    if (condition) return;
    throw InvalidArgumentError("optimizer: ", option.name, "=", value, ": expected ", expected);
  };
  if (option.range == Range::kFinite) require(std::isfinite(value), "a finite number");
  if (option.range == Range::kNotNegative) {
    require(value >= 0 && std::isfinite(value), "a finite number of at least 0");
  }
  if (option.range == Range::kBelowOne) require(value >= 0 && value < 1, "0 <= value < 1");
  if (option.range == Range::kAtMostOne) require(value >= 0 && value <= 1, "0 <= value <= 1");
}

// The options of a group as a formula takes them: computed in double, then rounded to the
// parameter's type.
template <typename T>
struct Numbers {
  const Options& options;
  const ParamState& state;  // from before this step, except the number of steps

  T operator[](const char* name) const { return static_cast<T>(options.at(name)); }
  T rest(const char* name) const { return static_cast<T>(1 - options.at(name)); }
  T sign() const { return options.at("maximize") != 0 ? T{-1} : T{1}; }
  // 1 - beta^steps: the sum of the weights that a mean with this decay gave so far.
  double weights(const char* beta) const {
    return 1 - std::pow(options.at(beta), static_cast<double>(state.steps));
  }
};

// An optimizer is its options with their ranges, its state, its rule, and the function that applies
// it, of a table of the host or of a device.
struct Recipe {
  static constexpr bool kOnDevices = false;
  static void check(const Options&) {}
  // Whether elements whose gradient is 0 stay as they are, the state too.
  static bool keeps_rest(const Options&) { return false; }
};

template <typename Given>
struct RecipeOf;

template <>
struct RecipeOf<SGDOptions> : Recipe {
  static constexpr const char* kName = "SGD";
  static constexpr bool kOnDevices = true;
  static constexpr std::array kState = {StateTensor{"momentum_buffer", "momentum"}};

  static std::vector<Option> options(const SGDOptions& o) {
    return {{"momentum", o.momentum, Range::kNotNegative},
            {"dampening", o.dampening, Range::kFinite},
            {"nesterov", o.nesterov ? 1.0 : 0.0}};
  }
  static void check(const Options& options) {
    const double momentum = options.at("momentum");
    const double dampening = options.at("dampening");
    if (options.at("nesterov") == 0 || (momentum != 0 && dampening == 0)) return;
    throw InvalidArgumentError("optimizer: nesterov needs momentum > 0 and dampening = 0, got ",
                               momentum, " and ", dampening);
  }
  static bool keeps_rest(const Options& options) {
    return options.at("momentum") == 0 && options.at("weight_decay") == 0;
  }
  template <typename T>
  static engine::SgdRule<T> rule(const Numbers<T>& of) {
    const bool first = !of.state.tensors.contains(kState[0].name);
    return {.sign = of.sign(),
            .lr = of["lr"],
            .momentum = of["momentum"],
            .take = first ? T{1} : of.rest("dampening"),
            .weight_decay = of["weight_decay"],
            .nesterov = of.options.at("nesterov") != 0};
  }
  static void apply(auto& by, const auto&... arguments) { by.sgd(arguments...); }
};

// Of Adam, and of AdamW with `kDecoupled`.
template <typename Given, bool kDecoupled>
struct AdamRecipe : Recipe {
  static constexpr const char* kName = "Adam";
  static constexpr bool kOnDevices = true;
  static constexpr std::array kState = {StateTensor{"exp_avg"}, StateTensor{"exp_avg_sq"},
                                        StateTensor{"max_exp_avg_sq", "amsgrad"}};

  static std::vector<Option> options(const Given& o) {
    return {{"beta1", o.betas.first, Range::kBelowOne},
            {"beta2", o.betas.second, Range::kBelowOne},
            {"eps", o.eps, Range::kNotNegative},
            {"amsgrad", o.amsgrad ? 1.0 : 0.0}};
  }
  template <typename T>
  static engine::AdamRule<T> rule(const Numbers<T>& of) {
    const double lr = of.options.at("lr");
    return {.sign = of.sign(),
            .beta1 = of["beta1"],
            .beta2 = of["beta2"],
            .take1 = of.rest("beta1"),
            .take2 = of.rest("beta2"),
            .step_size = static_cast<T>(lr / of.weights("beta1")),
            .root_correction = static_cast<T>(std::sqrt(of.weights("beta2"))),
            .eps = of["eps"],
            .weight_decay = kDecoupled ? T{0} : of["weight_decay"],
            .shrink = kDecoupled ? static_cast<T>(1 - lr * of.options.at("weight_decay")) : T{1}};
  }
  static void apply(auto& by, const auto&... arguments) { by.adam(arguments...); }
};

template <>
struct RecipeOf<AdamOptions> : AdamRecipe<AdamOptions, /*kDecoupled=*/false> {};
template <>
struct RecipeOf<AdamWOptions> : AdamRecipe<AdamWOptions, /*kDecoupled=*/true> {};

template <>
struct RecipeOf<RMSpropOptions> : Recipe {
  static constexpr const char* kName = "RMSprop";
  static constexpr std::array kState = {StateTensor{"square_avg"},
                                        StateTensor{"grad_avg", "centered"},
                                        StateTensor{"momentum_buffer", "momentum"}};

  static std::vector<Option> options(const RMSpropOptions& o) {
    return {{"alpha", o.alpha, Range::kAtMostOne},
            {"eps", o.eps, Range::kNotNegative},
            {"momentum", o.momentum, Range::kNotNegative},
            {"centered", o.centered ? 1.0 : 0.0}};
  }
  template <typename T>
  static RmspropRule<T> rule(const Numbers<T>& of) {
    return {.sign = of.sign(),
            .lr = of["lr"],
            .alpha = of["alpha"],
            .take = of.rest("alpha"),
            .eps = of["eps"],
            .weight_decay = of["weight_decay"],
            .momentum = of["momentum"]};
  }
  static void apply(auto& by, const auto&... arguments) { by.rmsprop(arguments...); }
};

template <>
struct RecipeOf<AdagradOptions> : Recipe {
  static constexpr const char* kName = "Adagrad";
  static constexpr std::array kState = {StateTensor{"sum", nullptr, "initial_accumulator_value"}};

  static std::vector<Option> options(const AdagradOptions& o) {
    return {{"lr_decay", o.lr_decay, Range::kNotNegative},
            {"initial_accumulator_value", o.initial_accumulator_value, Range::kNotNegative},
            {"eps", o.eps, Range::kNotNegative}};
  }
  static bool keeps_rest(const Options& options) { return options.at("weight_decay") == 0; }
  template <typename T>
  static AdagradRule<T> rule(const Numbers<T>& of) {
    const auto before = static_cast<double>(of.state.steps - 1);
    return {
        .sign = of.sign(),
        .step_size = static_cast<T>(of.options.at("lr") / (1 + before * of.options.at("lr_decay"))),
        .eps = of["eps"],
        .weight_decay = of["weight_decay"]};
  }
  static void apply(auto& by, const auto&... arguments) { by.adagrad(arguments...); }
};

template <>
struct RecipeOf<AdadeltaOptions> : Recipe {
  static constexpr const char* kName = "Adadelta";
  static constexpr std::array kState = {StateTensor{"square_avg"}, StateTensor{"acc_delta"}};

  static std::vector<Option> options(const AdadeltaOptions& o) {
    return {{"rho", o.rho, Range::kAtMostOne}, {"eps", o.eps, Range::kNotNegative}};
  }
  template <typename T>
  static AdadeltaRule<T> rule(const Numbers<T>& of) {
    return {.sign = of.sign(),
            .lr = of["lr"],
            .rho = of["rho"],
            .take = of.rest("rho"),
            .eps = of["eps"],
            .weight_decay = of["weight_decay"]};
  }
  static void apply(auto& by, const auto&... arguments) { by.adadelta(arguments...); }
};

template <>
struct RecipeOf<LAMBOptions> : Recipe {
  static constexpr const char* kName = "LAMB";
  static constexpr std::array kState = {StateTensor{"exp_avg"}, StateTensor{"exp_avg_sq"}};

  static std::vector<Option> options(const LAMBOptions& o) {
    return {{"beta1", o.betas.first, Range::kBelowOne},
            {"beta2", o.betas.second, Range::kBelowOne},
            {"eps", o.eps, Range::kNotNegative}};
  }
  template <typename T>
  static LambRule<T> rule(const Numbers<T>& of) {
    return {.sign = of.sign(),
            .lr = of["lr"],
            .beta1 = of["beta1"],
            .beta2 = of["beta2"],
            .take1 = of.rest("beta1"),
            .take2 = of.rest("beta2"),
            .correction = static_cast<T>(of.weights("beta1")),
            .root_correction = static_cast<T>(std::sqrt(of.weights("beta2"))),
            .eps = of["eps"],
            .weight_decay = of["weight_decay"]};
  }
  static void apply(auto& by, const auto&... arguments) { by.lamb(arguments...); }
};

// Those that every optimizer has, and its own.
template <typename Given>
std::vector<Option> options_of(const Given& given) {
  std::vector<Option> options = RecipeOf<Given>::options(given);
  options.push_back({"lr", given.lr, Range::kNotNegative});
  options.push_back({"weight_decay", given.weight_decay, Range::kNotNegative});
  options.push_back({"maximize", given.maximize ? 1.0 : 0.0});
  return options;
}

template <typename Given>
void check(const Options& options) {
  for (const Option& option : options_of<Given>({})) check_range(option, options.at(option.name));
  RecipeOf<Given>::check(options);
}

template <typename T>
T* elements_of(const Tensor& tensor) {
  return is_on_cpu(tensor) ? tensor.data<T>() : static_cast<T*>(tensor.address());
}

// Where the state tensors of `param` begin, in the order of kState; null for those that these
// options do not need.
template <typename T, std::size_t n>
std::array<T*, n> elements_of(const std::array<StateTensor, n>& wanted, const Tensor& param,
                              ParamState& state, const Options& options) {
  std::array<T*, n> arrays{};
  for (std::size_t i = 0; i < n; ++i) {
    const auto& [name, needs, initial] = wanted[i];
    if (needs != nullptr && options.at(needs) == 0) continue;
    const double value = initial == nullptr ? 0 : options.at(initial);
    arrays[i] = elements_of<T>(state_tensor(state, name, param, value));
  }
  return arrays;
}

}  // namespace

template <typename Given>
BuiltInOptimizer<Given>::BuiltInOptimizer(std::vector<ParamGroup> groups, const Given& options)
    : RuleOptimizer(std::move(groups), traits(options)) {}

template <typename Given>
RuleOptimizer::Traits BuiltInOptimizer<Given>::traits(const Given& given) {
  using Of = RecipeOf<Given>;
  Traits traits;
  for (const Option& option : options_of(given)) traits.defaults[option.name] = option.value;
  for (const StateTensor& tensor : Of::kState) {
    const bool optional = tensor.needs != nullptr;
    (optional ? traits.optional_state_tensors : traits.state_tensors).emplace_back(tensor.name);
  }
  traits.check = check<Given>;
  return traits;
}

// Where the parameter lies: by the table of the instruction set in use, or by the arithmetic of its
// device, with the same bits.
template <typename Given>
void BuiltInOptimizer<Given>::update(Tensor& param, const Tensor& grad, ParamState& state,
                                     const Options& options) {
  using Of = RecipeOf<Given>;
  if constexpr (Of::kOnDevices) {
    require_same_device(Of::kName, param, grad);
  } else {
    require_cpu(Of::kName, {&param});
  }
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rule = Of::rule(Numbers<T>{options, state});
    const auto arrays = elements_of<T>(Of::kState, param, state, options);
    const auto apply = [&](auto& by) {
      const auto with = [&](auto*... each) {
        Of::apply(by, rule, param.numel(), elements_of<T>(param), elements_of<T>(grad), each...);
      };
      std::apply(with, arrays);
    };
    if constexpr (Of::kOnDevices) {
      if (!is_on_cpu(param)) return apply(arithmetic_of(param));
    }
    apply(update_table().of<T>());
  });
}

template <typename Given>
bool BuiltInOptimizer<Given>::update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                                          const Options& options) {
  using Of = RecipeOf<Given>;
  if (!Of::keeps_rest(options)) return false;
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rule = Of::rule(Numbers<T>{options, state});
    const auto arrays = elements_of<T>(Of::kState, param, state, options);
    const std::int64_t rows = grad.rows.numel();
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t size = grad.values.numel() / rows;
      const std::int64_t start = grad.rows.data<std::int64_t>()[i] * size;
      const auto apply = [&](auto*... each) {
        Of::apply(update_table().of<T>(), rule, size, param.data<T>() + start,
                  grad.values.data<T>() + i * size, (each == nullptr ? each : each + start)...);
      };
      std::apply(apply, arrays);
    }
  });
  return true;
}

template class BuiltInOptimizer<SGDOptions>;
template class BuiltInOptimizer<AdamOptions>;
template class BuiltInOptimizer<AdamWOptions>;
template class BuiltInOptimizer<RMSpropOptions>;
template class BuiltInOptimizer<AdagradOptions>;
template class BuiltInOptimizer<AdadeltaOptions>;
template class BuiltInOptimizer<LAMBOptions>;

}  // namespace hvd::optim
