#include "ops/host/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hvd::host {
#if defined(__x86_64__)
namespace {

// __builtin_cpu_supports of clang 14 does not know it.
bool has_f16c() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace
#endif

Isa best_isa() noexcept {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  return has_avx2 ? Isa::kAvx2 : Isa::kBaseline;
#else
  return Isa::kBaseline;
#endif
}

}  // namespace hvd::host
