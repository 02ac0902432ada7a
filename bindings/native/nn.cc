#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/bindings.h"
#include "bindings/native/weight_and_bias.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/layers.h"

namespace hvd::python {
namespace {

// Lets Python classes derive from Module; keeps their Python half alive while C++ holds them.
class PythonModule : public nn::Module, public py::trampoline_self_life_support {
 public:
  Tensor forward(const Tensor& input) override {
    PYBIND11_OVERRIDE_PURE(Tensor, nn::Module, forward, input);
  }
};

using RegisterModule = std::shared_ptr<nn::Module> (nn::Module::*)(std::string,
                                                                   std::shared_ptr<nn::Module>);

// Opens what derived classes may call.
struct Registrar : nn::Module {
  using nn::Module::register_buffer;
  using nn::Module::register_parameter;
  static constexpr RegisterModule kRegisterModule = &Registrar::register_module<nn::Module>;
};

void add_module(nn::Module& module, std::string name, std::shared_ptr<nn::Module> child) {
  (module.*Registrar::kRegisterModule)(std::move(name), std::move(child));
}

// module.name = value registers layers and parameters, as in PyTorch.
void set_attribute(const py::object& self, const py::str& name, const py::object& value) {
  auto& module = self.cast<nn::Module&>();
  if (py::isinstance<nn::Module>(value)) {
    add_module(module, name, value.cast<std::shared_ptr<nn::Module>>());
  } else if (py::isinstance<Tensor>(value) && value.cast<Tensor&>().requires_grad()) {
    (module.*&Registrar::register_parameter)(name, value.cast<Tensor>());
  }
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) {
    throw py::error_already_set();
  }
}

void bind_module(py::module_& m) {
  py::classh<nn::Module, PythonModule> cls(m, "Module", R"(A layer or a model.

Derive from it, call ``super().__init__()``, assign layers and parameters (Tensors that require
grad) as attributes, and define ``forward(self, input) -> Tensor``. Names are PyTorch's:
"0.weight", "fc.bias".)",
                                           py::dynamic_attr());
  cls.def(py::init<>())
      .def("forward", &nn::Module::forward, py::arg("input"), ReleaseGil(),
           "The output for one input Tensor.")
      .def("__call__", &nn::Module::operator(), py::arg("input"), ReleaseGil())
      .def("__setattr__", &set_attribute)
      .def("register_parameter", &Registrar::register_parameter, py::arg("name"), py::arg("value"),
           "Add a parameter; it requires grad from now on.")
      .def("register_buffer", &Registrar::register_buffer, py::arg("name"), py::arg("value"),
           "Add a tensor that is saved but not trained.")
      .def("register_module", &add_module, py::arg("name"), py::arg("module"), "Add a sub-module.")
      .def("parameters", &nn::Module::parameters, "All parameters, a list of Tensors.")
      .def("named_parameters", &nn::Module::named_parameters,
           "List of (name, Tensor) of all parameters.")
      .def("named_buffers", &nn::Module::named_buffers, "List of (name, Tensor) of all buffers.")
      .def("named_children", &nn::Module::named_children, "List of (name, Module).")
      .def(
          "state_dict", [](const nn::Module& self) { return to_dict(self.state_dict()); },
          "Ordered dict name -> Tensor of parameters and buffers: the module's own, not copies.")
      .def(
          "load_state_dict",
          [](nn::Module& self, const py::handle& state) {
            self.load_state_dict(named_tensors_from(state));
          },
          py::arg("state"),
          R"(Copy values in, converting the dtype.

Raises:
    InvalidArgumentError: entries are missing, unexpected or of the wrong shape; then nothing is
        changed.)")
      .def("train", &nn::Module::train, py::arg("mode") = true,
           "Switch this module and its sub-modules to training (dropout, batch statistics).")
      .def("eval", &nn::Module::eval, "Switch to evaluation; the same as train(False).")
      .def_property_readonly("training", &nn::Module::is_training,
                             "Whether train() or eval() was called last; True at first.")
      .def("zero_grad", &nn::Module::zero_grad, py::arg("set_to_none") = true,
           "Drop all gradients, or fill them with zeros.")
      .def("apply", &nn::Module::apply, py::arg("function"),
           "Call ``function(module)`` on every sub-module, then on this one.");
}

void bind_parametrised(py::module_& m) {
  py::classh<nn::Linear, nn::Module> linear(
      m, "Linear", "[batch, in_features] -> [batch, out_features]: input x weight^T + bias.");
  linear.def(py::init<std::int64_t, std::int64_t, bool>(), py::arg("in_features"),
             py::arg("out_features"), py::arg("bias") = true);
  def_weight_and_bias(linear);
  py::classh<nn::BatchNorm2d, nn::Module> norm(
      m, "BatchNorm2d", "Normalises each channel of [n, num_features, h, w].");
  norm.def(py::init<std::int64_t, double, double>(), py::arg("num_features"), py::arg("eps") = 1e-5,
           py::arg("momentum") = 0.1);
  def_weight_and_bias(norm);
  norm.def_readonly("running_mean", &nn::BatchNorm2d::running_mean,
                    "What evaluation uses, [num_features]; a buffer, not a parameter.")
      .def_readonly("running_var", &nn::BatchNorm2d::running_var,
                    "What evaluation uses, [num_features]; a buffer, not a parameter.");
}

void bind_plain(py::module_& m) {
  py::classh<nn::ReLU, nn::Module>(m, "ReLU", "max(input, 0).").def(py::init<>());
  py::classh<nn::MaxPool2d, nn::Module>(
      m, "MaxPool2d", "Maximum over windows of [n, c, h, w]; a stride of 0 is the kernel's size.")
      .def(py::init<int, int>(), py::arg("kernel_size"), py::arg("stride") = 0);
  py::classh<nn::Dropout, nn::Module>(
      m, "Dropout", "In training, zeroes with probability ``p`` and scales the rest by 1/(1-p).")
      .def(py::init<double>(), py::arg("p") = 0.5);
  py::classh<nn::Flatten, nn::Module>(m, "Flatten", "Joins the axes from ``start_dim`` on.")
      .def(py::init<std::int64_t>(), py::arg("start_dim") = 1);
  py::classh<nn::Sequential, nn::Module>(m, "Sequential",
                                         "Modules one after the other, named \"0\", \"1\", ...")
      .def(py::init([](const py::args& modules) {
        auto sequential = std::make_shared<nn::Sequential>();
        for (const py::handle& module : modules) {
          if (!py::isinstance<nn::Module>(module)) {
            throw py::type_error(std::string("Sequential is made of Modules, got ") +
                                 Py_TYPE(module.ptr())->tp_name);
          }
          sequential->push_back(module.cast<std::shared_ptr<nn::Module>>());
        }
        return sequential;
      }))
      .def("__len__", &nn::Sequential::size)
      .def(
          "__getitem__",
          [](const nn::Sequential& self, std::size_t index) {
            if (index >= self.size()) throw py::index_error(std::to_string(index));
            return self.at(index);
          },
          py::arg("index"));
}

void bind_losses(py::module_& m) {
  py::class_<nn::CrossEntropyLoss>(
      m, "CrossEntropyLoss", "Mean cross entropy: input [n, classes], target int64 [n] -> scalar.")
      .def(py::init<>())
      .def("__call__", &nn::CrossEntropyLoss::operator(), py::arg("input"), py::arg("target"),
           ReleaseGil());
  py::class_<nn::MSELoss>(m, "MSELoss", "Mean squared difference over all elements, a scalar.")
      .def(py::init<>())
      .def("__call__", &nn::MSELoss::operator(), py::arg("input"), py::arg("target"), ReleaseGil());
}

void bind_init(py::module_& m) {
  namespace init = nn::init;
  const auto tensor = py::arg("tensor");
  m.def("init_constant_", &init::constant_, tensor, py::arg("value"), "Fill with ``value``.");
  m.def(
      "init_uniform_",
      [](const Tensor& t, double low, double high) { init::uniform_(t, low, high); }, tensor,
      py::arg("low") = 0.0, py::arg("high") = 1.0, "Fill with uniform numbers in [low, high).");
  m.def(
      "init_normal_", [](const Tensor& t, double mean, double std) { init::normal_(t, mean, std); },
      tensor, py::arg("mean") = 0.0, py::arg("std") = 1.0, "Fill with normal numbers.");
  m.def(
      "init_xavier_uniform_", [](const Tensor& t, double gain) { init::xavier_uniform_(t, gain); },
      tensor, py::arg("gain") = 1.0, "Glorot and Bengio 2010, uniform.");
  m.def(
      "init_xavier_normal_", [](const Tensor& t, double gain) { init::xavier_normal_(t, gain); },
      tensor, py::arg("gain") = 1.0, "Glorot and Bengio 2010, normal.");
  m.def(
      "init_kaiming_uniform_", [](const Tensor& t, double a) { init::kaiming_uniform_(t, a); },
      tensor, py::arg("a") = 0.0, "He et al. 2015, uniform; ``a``: slope of the leaky ReLU.");
  m.def(
      "init_kaiming_normal_", [](const Tensor& t, double a) { init::kaiming_normal_(t, a); },
      tensor, py::arg("a") = 0.0, "He et al. 2015, normal; ``a``: slope of the leaky ReLU.");
}

}  // namespace

void bind_nn(py::module_& m) {
  bind_module(m);
  bind_parametrised(m);
  bind_plain(m);
  bind_losses(m);
  bind_init(m);
}

}  // namespace hvd::python
