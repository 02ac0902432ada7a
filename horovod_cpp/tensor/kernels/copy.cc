#include "horovod_cpp/tensor/kernels/copy.h"

#include <cstring>

#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {
namespace {

template <typename To, typename From>
void copy_row(To* out, std::int64_t step_out, const From* in, std::int64_t step_in,
              std::int64_t n) {
  if constexpr (std::is_same_v<To, From>) {
    if (step_out == 1 && step_in == 1) {
      std::memmove(out, in, static_cast<std::size_t>(n) * sizeof(To));
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) out[i * step_out] = convert<To>(in[i * step_in]);
}

}  // namespace

Tensor contiguous(const Tensor& a) {
  return a.is_contiguous() ? a : clone(a);
}

Tensor clone(const Tensor& a) {
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  copy_into(result, a);
  return result;
}

Tensor to(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  Tensor result = Tensor::empty(a.shape(), dtype);
  copy_into(result, a);
  return result;
}

void copy_into(const Tensor& target, const Tensor& source) {
  const auto from =
      shapes::broadcast_strides(source.shape(), source.strides(), target.shape(), "copy");
  dispatch(target.dtype(), [&](auto to_tag) {
    using To = typename decltype(to_tag)::type;
    dispatch(source.dtype(), [&](auto from_tag) {
      using From = typename decltype(from_tag)::type;
      To* out = target.data<To>();
      const From* in = source.data<From>();
      for_each_row<2>(target.shape(), {target.strides(), from},
                      [&](const auto& at, std::int64_t n, const auto& step) {
                        copy_row(out + at[0], step[0], in + at[1], step[1], n);
                      });
    });
  });
  bump_version(target);
}

void fill(const Tensor& target, double value) {
  dispatch(target.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = target.data<T>();
    const T element = convert<T>(value);
    for_each_row<1>(target.shape(), {target.strides()},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) out[at[0] + i * step[0]] = element;
                    });
  });
  bump_version(target);
}

}  // namespace kernels
}  // namespace hvd
