#include "horovod_cpp/nn/init.h"

#include <pybind11/stl.h>

#include <string>
#include <type_traits>

#include "bindings/native/nn/nn.h"

namespace hvd::python {
namespace {

namespace init = nn::init;

init::FanMode mode_from(const std::string& name) {
  return named_value<init::FanMode>(
      "mode", name, {{"fan_in", init::FanMode::kFanIn}, {"fan_out", init::FanMode::kFanOut}});
}

init::Nonlinearity nonlinearity_from(const std::string& name) {
  using init::Nonlinearity;
  return named_value<Nonlinearity>("nonlinearity", name,
                                   {{"linear", Nonlinearity::kLinear},
                                    {"conv1d", Nonlinearity::kLinear},
                                    {"conv2d", Nonlinearity::kLinear},
                                    {"sigmoid", Nonlinearity::kSigmoid},
                                    {"tanh", Nonlinearity::kTanh},
                                    {"relu", Nonlinearity::kReLU},
                                    {"leaky_relu", Nonlinearity::kLeakyReLU},
                                    {"selu", Nonlinearity::kSELU}});
}

constexpr Arg kTensor{"tensor", "any shape, of a floating dtype."};
constexpr Arg kMatrix{"tensor", "[out, in, kernel...], of a floating dtype."};
constexpr Invalid kBadFill{"another dtype, or a number out of range; nothing is written then."};
constexpr Invalid kNoMatrix{
    "fewer than two axes, another dtype, or an unknown name; nothing is written then."};
constexpr Returns kItself{"``tensor``."};

// An initialiser that takes a tensor and `Numbers`, which `numbers` name, and a generator if it
// draws.
template <typename... Numbers, typename Fill, typename... Extra>
void bind_fill(py::module_& m, const char* name, Fill fill, const char* what, const Arg& tensor,
               const Invalid& invalid, const Extra&... numbers) {
  define(
      m, name,
      [fill](const Tensor& given, Numbers... rest) {
        if constexpr (std::is_invocable_v<Fill, const Tensor&, Numbers...>) {
          fill(given, rest...);
        } else {
          fill(given, rest..., default_generator());
        }
        return given;
      },
      what, tensor, numbers..., kItself, invalid);
}

void bind_fills(py::module_& m) {
  bind_fill<Number>(m, "constant_", &init::constant_, "Fill with ``value``.", kTensor, kBadFill,
                    Arg("value", "the number."));
  bind_fill(m, "zeros_", &init::zeros_, "Fill with zeros.", kTensor, kBadFill);
  bind_fill(m, "ones_", &init::ones_, "Fill with ones.", kTensor, kBadFill);
  bind_fill<Number, Number>(
      m, "uniform_", &init::uniform_, "Fill with uniform numbers in [low, high).", kTensor,
      kBadFill, Arg("low", "the smallest.") = 0.0, Arg("high", "above all of them.") = 1.0);
  bind_fill<Number, Number>(m, "normal_", &init::normal_, "Fill with normal numbers.", kTensor,
                            kBadFill, Arg("mean", "their mean.") = 0.0,
                            Arg("std", "their standard deviation.") = 1.0);
  bind_fill<Number, Number, Number, Number>(
      m, "trunc_normal_", &init::trunc_normal_, "Fill with normal numbers, none outside [a, b].",
      kTensor, kBadFill, Arg("mean", "of the whole distribution.") = 0.0,
      Arg("std", "its standard deviation.") = 1.0, Arg("a", "the smallest.") = -2.0,
      Arg("b", "the largest.") = 2.0);
  bind_fill<Number>(
      m, "orthogonal_", &init::orthogonal_,
      "Rows (or columns, if they are fewer) orthogonal and of length ``gain`` (Saxe et al. 2013).",
      kMatrix, kNoMatrix, Arg("gain", "the length.") = 1.0);
  const auto gain = Arg("gain", "see calculate_gain().") = 1.0;
  bind_fill<Number>(m, "xavier_uniform_", &init::xavier_uniform_,
                    "Uniform within gain x sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010).",
                    kMatrix, kNoMatrix, gain);
  bind_fill<Number>(
      m, "xavier_normal_", &init::xavier_normal_,
      "Normal with deviation gain x sqrt(2 / (fan in + fan out)) (Glorot and Bengio 2010).",
      kMatrix, kNoMatrix, gain);
}

using Kaiming = void (*)(const Tensor&, double, init::FanMode, init::Nonlinearity, Generator&);

void bind_kaiming(py::module_& m, const char* name, Kaiming fill, const char* what) {
  define(
      m, name,
      [fill](const Tensor& t, Number a, const std::string& mode, const std::string& nonlinearity) {
        fill(t, a, mode_from(mode), nonlinearity_from(nonlinearity), default_generator());
        return t;
      },
      what, kMatrix, Arg("a", "slope of the leaky ReLU.") = 0.0,
      Arg("mode", "which fan: \"fan_in\" or \"fan_out\".") = "fan_in",
      Arg("nonlinearity", "what follows the layer; gives the gain.") = "leaky_relu", kItself,
      kNoMatrix);
}

}  // namespace

void bind_nn_init(py::module_& m) {
  bind_fills(m);
  bind_kaiming(m, "kaiming_uniform_", &init::kaiming_uniform_,
               "Uniform within gain x sqrt(3 / fan) (He et al. 2015).");
  bind_kaiming(m, "kaiming_normal_", &init::kaiming_normal_,
               "Normal with deviation gain / sqrt(fan) (He et al. 2015).");
  define(
      m, "calculate_gain",
      [](const std::string& nonlinearity, Number param) {
        return init::calculate_gain(nonlinearity_from(nonlinearity), param);
      },
      "The gain that is recommended for what follows a layer.",
      Arg("nonlinearity",
          "\"linear\", \"conv1d\", \"conv2d\", \"sigmoid\", \"tanh\", \"relu\", \"leaky_relu\" or "
          "\"selu\"."),
      Arg("param", "slope of the leaky ReLU.") = 0.01, Returns{"A float."},
      Invalid{"an unknown name."});
}

}  // namespace hvd::python
