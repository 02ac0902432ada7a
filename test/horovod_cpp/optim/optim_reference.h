#pragma once

#include "test/horovod_cpp/reference_file.h"

namespace hvd {

// A tensor that test/support/reference/optim.py wrote.
inline Tensor optim_reference(const std::string& name) {
  return reference_tensor("optim", name);
}

}  // namespace hvd
