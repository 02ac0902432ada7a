#include "horovod_cpp/distributed/collectives/integer_average.h"

#include <string>

#include "core/config/log.h"
#include "core/negotiate/messages/request.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {

void warn_of_truncation(const CallSpec& spec, DType dtype) {
  const bool truncates = reduces(spec.kind) && spec.op == ReduceOp::kAverage &&
                         !is_floating(dtype) && !is_complex(dtype);
  if (!truncates || spec.set.size() == 1 || spec.set.rank() != 0) return;
  const std::string call = spec.automatic_name ? "an unnamed " + std::string(name_of(spec.kind))
                                               : readable_name(full_name(spec));
  if (!spec.set.world()->is_first_of("truncation of " + call)) return;
  log(LogLevel::kWarning, call + " averages " + std::string(name_of(dtype)) +
                              ": the mean is truncated to a whole number (3 and 4 become 3); "
                              "average a floating dtype, or take the Sum");
}

}  // namespace hvd
