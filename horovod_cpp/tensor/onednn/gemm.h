#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd {
namespace isa {

// Lets oneDNN do what it does faster than the table's own kernels: the float32 product of matrices.
// The library is opened at run time; false, and nothing changed, where it is missing or of another
// major version. oneDNN chooses its instruction set itself.
bool use_onednn(Table& table);

}  // namespace isa
}  // namespace hvd
