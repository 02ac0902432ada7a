#pragma once

namespace hvd::host {

// The instruction sets that kernels of ops/host are compiled for; chosen at run time.
enum class Isa { kBaseline = 0, kAvx2 = 1 };  // kAvx2: AVX2 and F16C

// What this CPU has; asked once.
Isa best_isa() noexcept;

}  // namespace hvd::host
