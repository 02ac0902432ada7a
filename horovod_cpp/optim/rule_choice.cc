#include <map>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd {
namespace optim {

namespace baseline {
void fill(UpdateTable& table);
}
#ifdef __x86_64__
namespace v3 {
void fill(UpdateTable& table);
}
namespace v4 {
void fill(UpdateTable& table);
}
#endif

namespace {

std::map<std::string_view, UpdateTable> make_tables() {
  std::map<std::string_view, UpdateTable> tables;
  baseline::fill(tables["baseline"]);
#ifdef __x86_64__
  v3::fill(tables["v3"]);
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
