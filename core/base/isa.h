#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace hvd {

// What arithmetic is compiled for, narrowest first; the processor decides at run time which serves.
// kV3: -march=x86-64-v3 (AVX2, FMA, F16C). kV4: -march=x86-64-v4 (AVX-512).
enum class Isa { kBaseline, kV3, kV4 };

constexpr const char* name_of(Isa isa) {
  return isa == Isa::kV4 ? "v4" : isa == Isa::kV3 ? "v3" : "baseline";
}

// The widest that this processor runs.
inline Isa best_isa() noexcept {
#ifdef __x86_64__
  static const Isa best = [] {
    __builtin_cpu_init();
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    // __builtin_cpu_supports of clang 14 does not know F16C.
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")) {
      return Isa::kBaseline;
    }
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
               ? Isa::kV4
               : Isa::kV3;
  }();
  return best;
#else
  return Isa::kBaseline;
#endif
}

// Functions that were compiled for one instruction set, and what puts them into a table. It is
// compiled for that set too.
template <typename Table>
struct CompiledFor {
  Isa isa;
  void (*fill)(Table& table);
};

// The tables of those that this processor runs. `compiled`: all, or the one of the machine that
// built this (-DHVD_ISA=native). Throws UnsupportedError where the processor runs none of them.
template <typename Table>
std::map<Isa, Table> tables_for_this_processor(const std::vector<CompiledFor<Table>>& compiled) {
  std::map<Isa, Table> tables;
  for (const CompiledFor<Table>& each : compiled) {
    if (each.isa <= best_isa()) each.fill(tables[each.isa]);
  }
  if (!tables.empty()) return tables;
  throw UnsupportedError("this horovod_cpp was built for the processor of another machine (" +
                         std::string(name_of(compiled.front().isa)) +
                         "), which runs instructions that this one lacks: build it here, or with "
                         "-DHVD_ISA=all for every processor");
}

}  // namespace hvd
