#include "horovod_cpp/tensor/kernels/indexing/table_rows.h"

#include <cstring>

#include "horovod_cpp/tensor/copy.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd {
namespace kernels {

Tensor gather_rows(const Tensor& table, const Tensor& rows) {
  const Tensor from = contiguous(table);
  const Tensor at = contiguous(rows);
  Shape shape = table.shape();
  shape[0] = rows.numel();
  Tensor result = Tensor::empty(std::move(shape), table.dtype());
  if (result.numel() == 0) return result;
  const std::size_t bytes =
      static_cast<std::size_t>(result.numel() / rows.numel()) * size_of(table.dtype());
  const auto* in = static_cast<const std::byte*>(from.data());
  auto* out = static_cast<std::byte*>(result.data());
  for (std::int64_t i = 0; i < rows.numel(); ++i, out += bytes) {
    std::memcpy(out, in + static_cast<std::size_t>(at.data<std::int64_t>()[i]) * bytes, bytes);
  }
  return result;
}

void add_rows(const Tensor& table, const Tensor& rows, const Tensor& values) {
  if (values.numel() == 0) return;
  const Tensor target = contiguous(table);
  const Tensor at = contiguous(rows);
  const Tensor from = contiguous(values);
  const std::int64_t columns = values.numel() / rows.numel();
  dispatch(table.dtype(), "add_rows", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Compute = typename compute_type<T>::type;
    const T* in = from.data<T>();
    for (std::int64_t i = 0; i < rows.numel(); ++i, in += columns) {
      T* out = target.data<T>() + at.data<std::int64_t>()[i] * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        out[j] =
            convert<T>(static_cast<Compute>(convert<Compute>(out[j]) + convert<Compute>(in[j])));
      }
    }
  });
  if (target.is(table)) {
    bump_version(table);
  } else {
    copy_into(table, target);
  }
}

}  // namespace kernels
}  // namespace hvd
