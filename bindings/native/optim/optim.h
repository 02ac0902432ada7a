#pragma once

#include <vector>

#include "bindings/native/bindings.h"
#include "horovod_cpp/optim/optimizer.h"

// The parts of bind_optim().
namespace hvd::python {

void bind_optimizers(py::module_& m);
void bind_lr_schedulers(py::module_& m);

// What an optimizer is made for: tensors, or dicts {"params": tensors, option: number}.
std::vector<optim::ParamGroup> groups_from(const py::handle& params);

}  // namespace hvd::python
