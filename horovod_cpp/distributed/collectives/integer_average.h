#pragma once

#include "core/base/dtype.h"
#include "horovod_cpp/distributed/collectives/engine_call.h"

namespace hvd {

// Says once per name, on the first rank of the set, that the average of integers is truncated: the
// mean of 3 and 4 is then 3, which looks right. Does nothing for other calls.
void warn_of_truncation(const CallSpec& spec, DType dtype);

}  // namespace hvd
