#pragma once

#include <memory>
#include <string>

#include "bindings/native/nn/nn.h"
#include "horovod_cpp/nn/module.h"

// What the files nn_module*.cc share.
namespace hvd::python {

// Lets Python classes derive from Module; keeps their Python half alive while C++ holds them.
class PythonModule : public nn::Module, public py::trampoline_self_life_support {
 public:
  Tensor forward(const Tensor& input) override;
  void train(bool mode) override { PYBIND11_OVERRIDE(void, nn::Module, train, mode); }
  std::string class_name() const override;
  std::string extra_repr() const override {
    PYBIND11_OVERRIDE(std::string, nn::Module, extra_repr, );
  }
};

using ModuleClass = py::classh<nn::Module, PythonModule>;

// The C++ half. Throws AttributeError, `what` first, while super().__init__() was not called.
nn::Module& module_of(const py::handle& self, const char* what);

// Registration by name and by assignment, and the lists of what is registered.
void def_parts(ModuleClass& cls);

}  // namespace hvd::python
