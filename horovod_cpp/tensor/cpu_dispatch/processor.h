#pragma once

#include <string_view>

namespace hvd {
namespace isa {

// Whether this processor runs what is compiled for "baseline", "v3" (-march=x86-64-v3) or "v4".
inline bool runs_here(std::string_view level) {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (level == "v3") return v3;
  if (level == "v4") {
    return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  }
#endif
  return level == "baseline";
}

}  // namespace isa
}  // namespace hvd
