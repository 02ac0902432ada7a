#include <string>

#include "core/base/status.h"
#include "core/config/config.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#ifdef HVD_ONEDNN
#include "horovod_cpp/tensor/onednn/gemm.h"
#endif

namespace hvd::isa {

#define HVD_LEVEL(name, isa) \
  namespace name {           \
  void fill(Table& table);   \
  }
HVD_ISA_LEVELS
#undef HVD_LEVEL

namespace {

std::vector<const Table*> make_tables() {
#define HVD_LEVEL(name, isa) {Isa::isa, name::fill},
  const std::vector<CompiledFor<Table>> compiled = {HVD_ISA_LEVELS};
#undef HVD_LEVEL
  std::vector<const Table*> tables;  // they live as long as the process
  for (const auto& [isa, table] : tables_for_this_processor(compiled)) {
    auto* kept = new Table(table);
    kept->name = name_of(isa);
    kept->instructions = isa;
    tables.push_back(kept);
  }
#ifdef HVD_ONEDNN
  auto* table = new Table(*tables.back());
  table->name = "onednn";
  use_onednn_bf16(*table);
  if (use_onednn(*table)) {
    tables.push_back(table);
  } else {
    delete table;
  }
#endif
  return tables;
}

}  // namespace

const std::vector<const Table*>& available() {
  static const std::vector<const Table*>* const tables =
      new std::vector<const Table*>(make_tables());
  return *tables;
}

const Table& choose(const std::vector<const Table*>& tables,
                    const std::optional<std::string>& wanted) {
  if (!wanted) return *tables.back();
  std::string names;
  for (const Table* table : tables) {
    if (table->name == *wanted) return *table;
    names += (names.empty() ? "" : ", ") + std::string(table->name);
  }
  throw InvalidArgumentError("HVD_ISA='", *wanted, "': this processor can run ", names);
}

const Table& table() {
  static const Table* const chosen = &choose(available(), environment("HVD_ISA"));
  return *chosen;
}

}  // namespace hvd::isa
