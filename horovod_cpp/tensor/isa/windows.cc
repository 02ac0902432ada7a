#include "horovod_cpp/tensor/isa/compiled.h"

namespace hvd {
namespace isa {
namespace HVD_ISA_NAME {
namespace {

template <typename T>
void max_pool(const Window& w, const T* image, T* out, std::int32_t* index) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const T* plane = image + c * w.height * w.width;
    for (std::int64_t y = 0; y < w.out_h; ++y) {
      for (std::int64_t x = 0; x < w.out_w; ++x) {
        const std::int64_t corner = y * w.stride * w.width + x * w.stride;
        std::int64_t best = corner;
        for (std::int64_t ky = 0; ky < w.kernel_h; ++ky) {
          for (std::int64_t kx = 0; kx < w.kernel_w; ++kx) {
            const std::int64_t at = corner + ky * w.width + kx;
            if (plane[at] > plane[best] || plane[at] != plane[at]) best = at;
          }
        }
        *out++ = plane[best];
        *index++ = static_cast<std::int32_t>(best);
      }
    }
  }
}

}  // namespace

template <typename T>
void set_windows(Kernels<T>& kernels) {
  kernels.max_pool = max_pool<T>;
}

template void set_windows(Kernels<float>& kernels);
template void set_windows(Kernels<double>& kernels);

}  // namespace HVD_ISA_NAME
}  // namespace isa
}  // namespace hvd
