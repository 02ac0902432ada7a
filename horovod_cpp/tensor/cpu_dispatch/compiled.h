#pragma once

// For the files that are compiled once per instruction set, with HVD_ISA_NAME a namespace of its
// own each time and Eigen's namespace renamed alike. What they emit must not be shared between the
// copies, or the linker might keep the one this processor cannot run: they call no inline function
// of the standard library, only Eigen, their own and C's.
#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd::isa::HVD_ISA_NAME {

// The products of matrices (products.cc).
template <typename T>
void set_products(Kernels<T>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
