#include "horovod_cpp/distributed/collectives/agreement.h"

#include <span>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"

namespace hvd {

void agree(const std::string& what, const std::string& misfit, const ProcessSet& process_set) {
  const auto mine = std::as_bytes(std::span(misfit));
  for (const Bytes& text :
       allgather_object({mine.begin(), mine.end()}, what + ".agree", process_set)) {
    if (text.empty()) continue;
    throw MismatchError(what + ": " +
                        std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  }
}

}  // namespace hvd
