#include <string>

#include "core/base/status.h"
#include "core/config/config.h"
#include "horovod_cpp/tensor/cpu_dispatch/processor.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#ifdef HVD_ONEDNN
#include "horovod_cpp/tensor/onednn/gemm.h"
#endif

namespace hvd {
namespace isa {

#ifdef HVD_ISA_BASELINE
namespace baseline {
void fill(Table& table);
}
#endif
#ifdef HVD_ISA_V3
namespace v3 {
void fill(Table& table);
}
#endif
#ifdef HVD_ISA_V4
namespace v4 {
void fill(Table& table);
}
#endif

namespace {

struct Level {
  const char* name;
  void (*fill)(Table& table);
};

// Those that were compiled, narrowest first: all, or the one of the machine that built this
// (-DHVD_ISA=native).
constexpr Level kLevels[] = {
#ifdef HVD_ISA_BASELINE
    {"baseline", baseline::fill},
#endif
#ifdef HVD_ISA_V3
    {"v3", v3::fill},
#endif
#ifdef HVD_ISA_V4
    {"v4", v4::fill},
#endif
};

std::vector<const Table*> make_tables() {
  std::vector<const Table*> tables;
  for (const Level& level : kLevels) {
    if (!runs_here(level.name)) continue;
    auto* table = new Table{level.name, level.name, {}, {}};  // lives as long as the process
    level.fill(*table);
    tables.push_back(table);
  }
  if (tables.empty()) {
    throw UnsupportedError("this horovod_cpp was built for the processor of another machine (" +
                           std::string(kLevels[0].name) +
                           "), which runs instructions that this one lacks: build it here, or with "
                           "-DHVD_ISA=all for every processor");
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
  throw InvalidArgumentError("HVD_ISA='" + *wanted + "': this processor can run " + names);
}

const Table& table() {
  static const Table* const chosen = &choose(available(), environment("HVD_ISA"));
  return *chosen;
}

}  // namespace isa
}  // namespace hvd
