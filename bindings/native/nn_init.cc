#include <pybind11/stl.h>

#include <map>
#include <string>

#include "bindings/native/nn.h"
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

void bind_plain(py::module_& m) {
  const auto tensor = py::arg("tensor");
  m.def(
      "init_constant_",
      [](const Tensor& t, double value) {
        init::constant_(t, value);
        return t;
      },
      tensor, py::arg("value"), "Fill with ``value``; returns the tensor, as all of these do.");
  m.def(
      "init_zeros_",
      [](const Tensor& t) {
        init::zeros_(t);
        return t;
      },
      tensor, "Fill with zeros.");
  m.def(
      "init_ones_",
      [](const Tensor& t) {
        init::ones_(t);
        return t;
      },
      tensor, "Fill with ones.");
  m.def(
      "init_uniform_",
      [](const Tensor& t, double low, double high) {
        init::uniform_(t, low, high);
        return t;
      },
      tensor, py::arg("low") = 0.0, py::arg("high") = 1.0,
      "Fill with uniform numbers in [low, high).");
  m.def(
      "init_normal_",
      [](const Tensor& t, double mean, double std) {
        init::normal_(t, mean, std);
        return t;
      },
      tensor, py::arg("mean") = 0.0, py::arg("std") = 1.0, "Fill with normal numbers.");
  m.def(
      "init_trunc_normal_",
      [](const Tensor& t, double mean, double std, double a, double b) {
        init::trunc_normal_(t, mean, std, a, b);
        return t;
      },
      tensor, py::arg("mean") = 0.0, py::arg("std") = 1.0, py::arg("a") = -2.0, py::arg("b") = 2.0,
      "Fill with normal numbers, none outside [a, b].");
  m.def(
      "init_orthogonal_",
      [](const Tensor& t, double gain) {
        init::orthogonal_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0, "Rows (or columns) orthogonal and of length ``gain``.");
}

using Kaiming = void (*)(const Tensor&, double, init::FanMode, init::Nonlinearity, Generator&);

void def_kaiming(py::module_& m, const char* name, Kaiming function, const char* doc) {
  m.def(
      name,
      [function](const Tensor& t, double a, const std::string& mode,
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
  const auto tensor = py::arg("tensor");
  m.def(
      "init_xavier_uniform_",
      [](const Tensor& t, double gain) {
        init::xavier_uniform_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0, "Glorot and Bengio 2010, uniform.");
  m.def(
      "init_xavier_normal_",
      [](const Tensor& t, double gain) {
        init::xavier_normal_(t, gain);
        return t;
      },
      tensor, py::arg("gain") = 1.0, "Glorot and Bengio 2010, normal.");
  def_kaiming(m, "init_kaiming_uniform_", &init::kaiming_uniform_,
              "He et al. 2015, uniform; ``a``: slope of the leaky ReLU.");
  def_kaiming(m, "init_kaiming_normal_", &init::kaiming_normal_,
              "He et al. 2015, normal; ``a``: slope of the leaky ReLU.");
  m.def(
      "init_calculate_gain",
      [](const std::string& nonlinearity, double param) {
        return init::calculate_gain(nonlinearity_from(nonlinearity), param);
      },
      py::arg("nonlinearity"), py::arg("param") = 0.01,
      "The recommended gain; ``param``: slope of the leaky ReLU.");
}

}  // namespace hvd::python
