#pragma once

#include "core/base/isa.h"

// For the loop that follows: no iteration reads what another one writes. Clang checks at run time.
#ifdef __clang__
#define HVD_INDEPENDENT
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hvd::engine::host {

// A function that is always inlined, once for each instruction set that its loop profits from.
template <auto kLoop>
struct Compiled;
template <typename Result, typename... Arguments, Result (*kLoop)(Arguments...)>
struct Compiled<kLoop> {
  static Result baseline(Arguments... arguments) { return kLoop(arguments...); }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static Result avx2(Arguments... arguments) {
    return kLoop(arguments...);
  }
#endif
};

template <auto kLoop>
auto compiled_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kV3) return &Compiled<kLoop>::avx2;
#endif
  return &Compiled<kLoop>::baseline;
}

}  // namespace hvd::engine::host
