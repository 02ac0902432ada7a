#include "horovod_cpp/tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "horovod_cpp/tensor/creation.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/memory.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

bool row_major(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::shared_ptr<Tensor::Impl> make_impl(std::shared_ptr<Storage> storage, void* data, Shape shape,
                                        std::vector<std::int64_t> strides, DType dtype) {
  auto impl = std::make_shared<Tensor::Impl>();
  impl->storage = std::move(storage);
  impl->data = static_cast<std::byte*>(data);
  impl->dtype = dtype;
  impl->numel = numel_of(shape);
  impl->contiguous = impl->numel == 0 || row_major(shape, strides);
  impl->shape = std::move(shape);
  impl->strides = std::move(strides);
  return impl;
}

std::shared_ptr<Storage> make_storage(std::int64_t bytes, const Shape& shape, DType dtype) {
  try {
    return std::make_shared<Storage>(static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(str_cat("Tensor::empty: no memory for the ", bytes, " bytes of a ",
                                   dtype, " tensor ", shape));
  }
}

// What computes here would read a GPU's addresses.
void expect_host(const Tensor::Impl& impl) {
  const Device& device = impl.storage->device;
  if (device.kind == DeviceKind::kCpu) return;
  throw UnsupportedError("a tensor of shape ", impl.shape, " is on ", to_string(device),
                         ", and this is done on the CPU alone: move it with .cpu() (layers on the "
                         "GPU come later)");
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  static_cast<void>(numel_of(shape));  // throws where it is the shape alone
  if (const auto bytes = checked_bytes(shape, dtype)) return *bytes;
  throw InvalidArgumentError("Tensor::empty: shape ", shape, " needs over 2^63 bytes");
}

// An owner of `bytes` (not 0) bytes of a device.
std::shared_ptr<const void> device_memory(const Device& device, std::int64_t bytes,
                                          const Shape& shape, DType dtype) {
  engine::DeviceMemory& memory = memory_of(device);
  void* data = memory.allocate(device.index, static_cast<std::size_t>(bytes));
  if (data == nullptr) {
    throw OutOfMemoryError(str_cat("Tensor::empty: no memory on ", to_string(device), " for the ",
                                   bytes, " bytes of a ", dtype, " tensor ", shape));
  }
  return {data, [&memory, index = device.index](const void* freed) {
            memory.deallocate(index, const_cast<void*>(freed));
          }};
}

template <typename T>
Tensor copy_of(std::span<const T> values, Shape shape) {
  const std::int64_t numel = numel_of(shape);
  if (numel != static_cast<std::int64_t>(values.size())) {
    throw InvalidArgumentError("Tensor::from: ", values.size(), " values for shape ", shape);
  }
  Tensor result = Tensor::empty(std::move(shape), dtype_of<T>::value);
  if (!values.empty()) std::memcpy(result.data(), values.data(), values.size_bytes());
  return result;
}

}  // namespace

Storage::Storage(std::size_t size) : data(memory::allocate(size)), bytes(size) {}

Storage::~Storage() {
  if (owner == nullptr) memory::deallocate(data, bytes);
}

Tensor::Impl& impl_of(const Tensor& tensor, const char* function) {
  if (!tensor.defined()) {
    throw InvalidArgumentError(function, ": the tensor is undefined");
  }
  return *static_cast<Tensor::Impl*>(const_cast<void*>(tensor.id()));
}

Tensor make_view(const Tensor& base, Shape shape, std::vector<std::int64_t> strides,
                 std::int64_t offset) {
  const Tensor::Impl& impl = impl_of(base);
  std::byte* data = impl.data + offset * static_cast<std::int64_t>(size_of(impl.dtype));
  return Tensor(make_impl(impl.storage, data, std::move(shape), std::move(strides), impl.dtype));
}

void bump_version(const Tensor& tensor) {
  impl_of(tensor).storage->version.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t version_of(const Tensor& tensor) {
  return impl_of(tensor).storage->version.load(std::memory_order_relaxed);
}

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  const std::int64_t bytes = bytes_of(shape, dtype);
  if (device.kind == DeviceKind::kCpu) {
    auto storage = make_storage(bytes, shape, dtype);
    void* data = storage->data;
    std::vector<std::int64_t> strides = shapes::row_major_strides(shape);
    return Tensor(make_impl(std::move(storage), data, std::move(shape), std::move(strides), dtype));
  }
  const std::uintptr_t stream = memory_of(device).stream(device.index);
  // Without elements there is no memory, but an owner, as for all that is wrapped.
  std::shared_ptr<const void> owner = std::make_shared<Device>(device);
  if (bytes != 0) owner = device_memory(device, bytes, shape, dtype);
  void* data = bytes == 0 ? nullptr : const_cast<void*>(owner.get());
  return wrap_on(device, stream, data, std::move(shape), dtype, std::move(owner));
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  if (device.kind != DeviceKind::kCpu) return full(std::move(shape), 0.0, dtype, device);
  Tensor result = empty(std::move(shape), dtype);
  std::memset(result.data(), 0, bytes_of(result));
  return result;
}

Tensor Tensor::ones(Shape shape, DType dtype, Device device) {
  return full(std::move(shape), 1.0, dtype, device);
}

Tensor Tensor::full(Shape shape, double value, DType dtype, Device device) {
  Tensor result = empty(std::move(shape), dtype, device);
  kernels::fill(result, value);
  return result;
}

Tensor Tensor::arange(std::int64_t count, DType dtype) {
  Tensor result = empty({count}, dtype);
  if (count > 0) kernels::require_fits(static_cast<double>(count - 1), dtype, "arange");
  dispatch_any(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = result.data<T>();
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<T>(i);
  });
  return result;
}

Tensor Tensor::scalar(double value, DType dtype) {
  return full({}, value, dtype);
}

Tensor Tensor::from(std::span<const float> values, Shape shape) {
  return copy_of(values, std::move(shape));
}
Tensor Tensor::from(std::span<const double> values, Shape shape) {
  return copy_of(values, std::move(shape));
}
Tensor Tensor::from(std::span<const std::int64_t> values, Shape shape) {
  return copy_of(values, std::move(shape));
}

Tensor Tensor::wrap(void* data, Shape shape, DType dtype, std::shared_ptr<const void> owner,
                    std::vector<std::int64_t> strides) {
  return wrap_on({}, 0, data, std::move(shape), dtype, std::move(owner), std::move(strides));
}

Tensor Tensor::wrap_on(Device device, std::uintptr_t stream, void* data, Shape shape, DType dtype,
                       std::shared_ptr<const void> owner, std::vector<std::int64_t> strides) {
  if (data == nullptr && numel_of(shape) != 0) {
    throw InvalidArgumentError("Tensor::wrap: null memory for shape ", shape);
  }
  if (owner == nullptr) {
    throw InvalidArgumentError("Tensor::wrap: without an owner nothing keeps the memory alive");
  }
  if (strides.empty()) strides = shapes::row_major_strides(shape);
  if (strides.size() != shape.size()) {
    throw InvalidArgumentError("Tensor::wrap: ", strides.size(), " strides for shape ", shape);
  }
  auto storage = std::make_shared<Storage>(data, std::move(owner), device, stream);
  return Tensor(make_impl(std::move(storage), data, std::move(shape), std::move(strides), dtype));
}

const Shape& Tensor::shape() const {
  return impl_of(*this, "shape").shape;
}
const std::vector<std::int64_t>& Tensor::strides() const {
  return impl_of(*this, "strides").strides;
}
std::int64_t Tensor::dim() const {
  return static_cast<std::int64_t>(shape().size());
}
std::int64_t Tensor::size(std::int64_t axis) const {
  return shape()[static_cast<std::size_t>(shapes::axis(axis, dim(), "size"))];
}
std::int64_t Tensor::numel() const {
  return impl_of(*this, "numel").numel;
}
DType Tensor::dtype() const {
  return impl_of(*this, "dtype").dtype;
}
Device Tensor::device() const {
  return impl_of(*this, "device").storage->device;
}
std::uintptr_t Tensor::stream() const {
  return impl_of(*this, "stream").storage->stream;
}
bool Tensor::in_stream_order() const {
  return impl_of(*this, "in_stream_order").storage->in_stream_order;
}
void Tensor::set_in_stream_order(bool in_order) {
  impl_of(*this, "set_in_stream_order").storage->in_stream_order = in_order;
}
bool Tensor::is_contiguous() const {
  return impl_of(*this, "is_contiguous").contiguous;
}

void* Tensor::data() const {
  const Impl& impl = impl_of(*this, "data");
  expect_host(impl);
  return impl.data;
}
void* Tensor::address() const {
  return impl_of(*this, "address").data;
}

template <typename T>
T* Tensor::data() const {
  const Impl& impl = impl_of(*this, "data");
  if (impl.dtype != dtype_of<T>::value) {
    throw InvalidArgumentError("data<", dtype_of<T>::value, ">: the tensor's dtype is ",
                               impl.dtype);
  }
  expect_host(impl);
  return reinterpret_cast<T*>(impl.data);
}

#define HVD_DTYPE(type, name) template std::add_pointer_t<type> Tensor::data<type>() const;
HVD_ARITHMETIC_DTYPES
HVD_OTHER_DTYPES
#undef HVD_DTYPE

double Tensor::item() const {
  if (numel() != 1) {
    throw InvalidArgumentError("item: takes a tensor of one element, got shape ", shape());
  }
  return to_vector().front();
}

std::vector<double> Tensor::to_vector() const {
  const Tensor values =
      kernels::contiguous(kernels::to(kernels::to_device(*this, {}), DType::kF64));
  const double* begin = values.data<double>();
  return {begin, begin + values.numel()};
}

Lease Tensor::lease() const {
  const Impl& impl = impl_of(*this, "lease");
  if (!impl.contiguous) {
    throw InvalidArgumentError("lease: ", to_string(*this), " is not contiguous");
  }
  return {{impl.data, impl.numel, impl.dtype, device()}, impl.storage};
}

std::shared_ptr<autograd::Record>& Tensor::record() const {
  return impl_of(*this, "record").record;
}

bool is_sole_owner(const Tensor& tensor) {
  return impl_of(tensor).storage.use_count() == 1 && tensor.handles() == 1;
}

namespace {

void append(std::string& text, const char* separator, std::span<const double> parts) {
  char digits[64];
  if (parts.size() == 1) {
    std::snprintf(digits, sizeof digits, "%s%.6g", separator, parts[0]);
  } else {
    std::snprintf(digits, sizeof digits, "%s%.6g%+.6gj", separator, parts[0], parts[1]);
  }
  text += digits;
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "Tensor(undefined)";
  constexpr std::int64_t kShown = 16;
  std::string text = "Tensor(" + to_string(tensor.shape()) + ", " +
                     std::string(name_of(tensor.dtype())) +
                     (is_on_cpu(tensor) ? "" : ", " + to_string(tensor.device())) + ")";
  if (tensor.numel() > kShown) return text;
  text += " {";
  const bool complex = is_complex(tensor.dtype());
  const Tensor wide = kernels::contiguous(
      kernels::to(kernels::to_device(tensor, {}), complex ? DType::kC128 : DType::kF64));
  const auto* part = static_cast<const double*>(wide.data());
  const std::size_t parts = complex ? 2 : 1;
  for (std::int64_t i = 0; i < tensor.numel(); ++i, part += parts) {
    append(text, i == 0 ? "" : ", ", {part, parts});
  }
  return text + "}";
}

std::string describe(const Tensor& tensor) {
  return tensor.defined() ? str_cat(tensor.dtype(), " ", tensor.shape()) : "undefined";
}

bool bitwise_equal(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor left = kernels::contiguous(kernels::to_device(a, {}));
  const Tensor right = kernels::contiguous(kernels::to_device(b, {}));
  return a.numel() == 0 || std::memcmp(left.data(), right.data(), bytes_of(a)) == 0;
}

namespace {

// `count` float64 numbers, of which value(i) is the i-th, as `dtype`. The first and the last,
// between which the others are, fit or it throws.
template <typename Value>
Tensor numbers(std::int64_t count, DType dtype, const char* function, Value value) {
  if (count > 0) {
    kernels::require_fits(value(std::int64_t{0}), dtype, function);
    kernels::require_fits(value(count - 1), dtype, function);
  }
  Tensor wide = Tensor::empty({count}, DType::kF64);
  for (std::int64_t i = 0; i < count; ++i) wide.data<double>()[i] = value(i);
  return kernels::to(wide, dtype);
}

}  // namespace

Tensor arange(double begin, double end, double step, DType dtype) {
  const double count = std::ceil((end - begin) / step);
  if (!(count >= 0.0 && count < 0x1p53)) {
    throw InvalidArgumentError("arange: from ", begin, " to ", end, " in steps of ", step);
  }
  return numbers(static_cast<std::int64_t>(count), dtype, "arange",
                 [=](std::int64_t i) { return begin + static_cast<double>(i) * step; });
}

Tensor linspace(double begin, double end, std::int64_t count, DType dtype) {
  if (count < 0) throw InvalidArgumentError("linspace: ", count, " numbers");
  const double step = (end - begin) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  return numbers(count, dtype, "linspace", [=](std::int64_t i) {
    if (i == 0 || i < count / 2) return begin + static_cast<double>(i) * step;
    return end - static_cast<double>(count - 1 - i) * step;
  });
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t width = columns == -1 ? rows : columns;
  Tensor result = Tensor::zeros({rows, width}, dtype);
  for (std::int64_t i = 0; i < std::min(rows, width); ++i) {
    kernels::fill(kernels::select(kernels::select(result, 0, i), 0, i), 1);
  }
  return result;
}

Tensor zeros_like(const Tensor& other) {
  return Tensor::zeros(other.shape(), other.dtype(), other.device());
}

Tensor ones_like(const Tensor& other) {
  return Tensor::ones(other.shape(), other.dtype(), other.device());
}

Tensor full_like(const Tensor& other, double value) {
  return Tensor::full(other.shape(), value, other.dtype(), other.device());
}

}  // namespace hvd
