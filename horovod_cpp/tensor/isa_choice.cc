#include <string>

#include "core/base/status.h"
#include "core/config/config.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#ifdef HVD_ONEDNN
#include "horovod_cpp/tensor/onednn/gemm.h"
#include "horovod_cpp/tensor/onednn/gemm_bf16.h"
#endif

namespace hvd {
namespace isa {

namespace baseline {
void fill(Table& table);
}
#ifdef __x86_64__
namespace v3 {
void fill(Table& table);
}
namespace v4 {
void fill(Table& table);
}
#endif

namespace {

struct Level {
  const char* name;
  void (*fill)(Table& table);
  bool usable;
};

std::vector<Level> levels() {
  std::vector<Level> result = {{"baseline", baseline::fill, true}};
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  result.push_back({"v3", v3::fill, v3});
  result.push_back({"v4", v4::fill, v4});
#endif
  return result;
}

std::vector<const Table*> make_tables() {
  std::vector<const Table*> tables;
  for (const Level& level : levels()) {
    if (!level.usable) continue;
    auto* table = new Table{level.name, level.name, {}, {}};  // lives as long as the process
    level.fill(*table);
    tables.push_back(table);
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
  static const Table& chosen = choose(available(), environment("HVD_ISA"));
  return chosen;
}

}  // namespace isa
}  // namespace hvd
