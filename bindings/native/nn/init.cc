#include <pybind11/stl.h>

#include <map>
#include <string>

#include "bindings/native/nn/docs.h"
#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/init.h"

namespace hvd::python {
namespace {

namespace init = nn::init;

init::FanMode mode_from(const std::string& name) {
  if (name == "fan_in") return init::FanMode::kFanIn;
  if (name == "fan_out") return init::FanMode::kFanOut;
  throw InvalidArgumentError("mode '" + name + "': expected fan_in or fan_out");
}

init::Nonlinearity nonlinearity_from(const std::string& name) {
  using init::Nonlinearity;
  static const std::map<std::string, Nonlinearity> known = {
      {"linear", Nonlinearity::kLinear},
      {"conv1d", Nonlinearity::kLinear},
      {"conv2d", Nonlinearity::kLinear},
      {"sigmoid", Nonlinearity::kSigmoid},
      {"tanh", Nonlinearity::kTanh},
      {"relu", Nonlinearity::kReLU},
      {"leaky_relu", Nonlinearity::kLeakyReLU},
      {"selu", Nonlinearity::kSELU}};
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  std::string names;
  for (const auto& [each, value] : known) names += (names.empty() ? "" : ", ") + each;
  throw InvalidArgumentError("nonlinearity '" + name + "': expected one of " + names);
}

constexpr const char* kMatrix = "[out, in, kernel...]";
constexpr const char* kNoMatrix = "fewer than two axes, another dtype, or an unknown name";
constexpr const char* kKaimingArgs = R"(    a: slope of the leaky ReLU.
    mode: which fan: "fan_in" or "fan_out".
    nonlinearity: what follows the layer; gives the gain.
)";

void bind_plain(py::module_& m) {
  const auto tensor = py::arg("tensor");
  m.def(
      "init_constant_",
      [](const Tensor& t, Number value) {
        init::constant_(t, value);
        return t;
      },
      tensor, py::arg("value"),
      fill_doc("Fill with ``value``.", "    value: the number.\n").c_str());
  m.def(
      "init_zeros_",
      [](const Tensor& t) {
        init::zeros_(t);
        return t;
      },
      tensor, fill_doc("Fill with zeros.").c_str());
  m.def(
      "init_ones_",
      [](const Tensor& t) {
        init::ones_(t);
        return t;
      },
      tensor, fill_doc("Fill with ones.").c_str());
}

void bind_random_values(py::module_& m) {
  const auto tensor = py::arg("tensor");
  m.def(
      "init_uniform_",
      [](const Tensor& t, Number low, Number high) {
        init::uniform_(t, low, high);
        return t;
      },
      tensor, py::arg("low") = 0.0, py::arg("high") = 1.0,
      fill_doc("Fill with uniform numbers in [low, high).",
               "    low: the smallest.\n"
               "    high: above all of them.\n")
          .c_str());
  m.def(
      "init_normal_",
      [](const Tensor& t, Number mean, Number std) {
        init::normal_(t, mean, std);
        return t;
      },
      tensor, py::arg("mean") = 0.0, py::arg("std") = 1.0,
      fill_doc("Fill with normal numbers.",
               "    mean: their mean.\n"
               "    std: their standard deviation.\n")
          .c_str());
  m.def(
      "init_trunc_normal_",
      [](const Tensor& t, Number mean, Number std, Number a, Number b) {
        init::trunc_normal_(t, mean, std, a, b);
        return t;
      },
      tensor, py::arg("mean") = 0.0, py::arg("std") = 1.0, py::arg("a") = -2.0, py::arg("b") = 2.0,
      fill_doc("Fill with normal numbers, none outside [a, b].",
               "    mean: of the whole distribution.\n"
               "    std: its standard deviation.\n"
               "    a: the smallest.\n"
               "    b: the largest.\n")
          .c_str());
  m.def(
      "init_orthogonal_",
      [](const Tensor& t, Number gain) {
        init::orthogonal_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0,
      fill_doc("Rows (or columns, if they are fewer) orthogonal and of length ``gain`` (Saxe et "
               "al. 2013).",
               "    gain: the length.\n", kMatrix, kNoMatrix)
          .c_str());
}

using Kaiming = void (*)(const Tensor&, double, init::FanMode, init::Nonlinearity, Generator&);

void def_kaiming(py::module_& m, const char* name, Kaiming function, const char* doc) {
  m.def(
      name,
      [function](const Tensor& t, Number a, const std::string& mode,
                 const std::string& nonlinearity) {
        function(t, a, mode_from(mode), nonlinearity_from(nonlinearity), default_generator());
        return t;
      },
      py::arg("tensor"), py::arg("a") = 0.0, py::arg("mode") = "fan_in",
      py::arg("nonlinearity") = "leaky_relu", doc);
}

}  // namespace

void bind_nn_init(py::module_& m) {
  bind_plain(m);
  bind_random_values(m);
  const auto tensor = py::arg("tensor");
  m.def(
      "init_xavier_uniform_",
      [](const Tensor& t, Number gain) {
        init::xavier_uniform_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0,
      fill_doc("Uniform within gain x sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010).",
               "    gain: see calculate_gain().\n", kMatrix, kNoMatrix)
          .c_str());
  m.def(
      "init_xavier_normal_",
      [](const Tensor& t, Number gain) {
        init::xavier_normal_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0,
      fill_doc(
          "Normal with deviation gain x sqrt(2 / (fan in + fan out)) (Glorot and Bengio 2010).",
          "    gain: see calculate_gain().\n", kMatrix, kNoMatrix)
          .c_str());
  def_kaiming(m, "init_kaiming_uniform_", &init::kaiming_uniform_,
              fill_doc("Uniform within gain x sqrt(3 / fan) (He et al. 2015).", kKaimingArgs,
                       kMatrix, kNoMatrix)
                  .c_str());
  def_kaiming(m, "init_kaiming_normal_", &init::kaiming_normal_,
              fill_doc("Normal with deviation gain / sqrt(fan) (He et al. 2015).", kKaimingArgs,
                       kMatrix, kNoMatrix)
                  .c_str());
  m.def(
      "init_calculate_gain",
      [](const std::string& nonlinearity, Number param) {
        return init::calculate_gain(nonlinearity_from(nonlinearity), param);
      },
      py::arg("nonlinearity"), py::arg("param") = 0.01,
      R"(The gain that is recommended for what follows a layer.

Args:
    nonlinearity: "linear", "conv1d", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
    param: slope of the leaky ReLU.

Returns:
    A float.

Raises:
    InvalidArgumentError: an unknown name.)");
}

}  // namespace hvd::python
