#pragma once

// For the loop that follows: no iteration reads what another one writes. Clang checks at run time.
#ifdef __clang__
#define HVD_INDEPENDENT
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd::host {

// The instruction sets that kernels of ops/host are compiled for; chosen at run time.
enum class Isa { kBaseline = 0, kAvx2 = 1 };  // kAvx2: AVX2 and F16C

// What this CPU has; asked once.
Isa best_isa() noexcept;

}  // namespace hvd::host
