#include <map>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd {
namespace optim {

#ifdef HVD_ISA_BASELINE
namespace baseline {
void fill(UpdateTable& table);
}
#endif
#ifdef HVD_ISA_V3
namespace v3 {
void fill(UpdateTable& table);
}
#endif
#ifdef HVD_ISA_V4
namespace v4 {
void fill(UpdateTable& table);
}
#endif

namespace {

std::map<std::string_view, UpdateTable> make_tables() {
  std::map<std::string_view, UpdateTable> tables;
#ifdef HVD_ISA_BASELINE
  baseline::fill(tables["baseline"]);
#endif
#ifdef HVD_ISA_V3
  v3::fill(tables["v3"]);
#endif
#ifdef HVD_ISA_V4
  v4::fill(tables["v4"]);
#endif
  return tables;
}

}  // namespace

const UpdateTable& update_table(std::string_view isa) {
  static const auto* const tables = new std::map<std::string_view, UpdateTable>(make_tables());
  const auto found = tables->find(isa);
  if (found == tables->end()) {
    throw InvalidArgumentError("update_table: no instruction set '" + std::string(isa) + "'");
  }
  return found->second;
}

const UpdateTable& update_table() {
  static const UpdateTable& chosen = update_table(isa::table().instructions);
  return chosen;
}

}  // namespace optim
}  // namespace hvd
