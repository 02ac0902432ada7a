#include "test/support/typed_array.h"

#include <cstring>

#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd::engine::test {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace

TypedArray::TypedArray(DType dtype, std::int64_t numel)
    : dtype_(dtype), numel_(numel), bytes_(static_cast<std::size_t>(numel) * size_of(dtype)) {}

TypedArray::TypedArray(DType dtype, std::span<const double> values)
    : TypedArray(dtype, static_cast<std::int64_t>(values.size())) {
  for (std::int64_t i = 0; i < numel_; ++i) set(i, values[static_cast<std::size_t>(i)]);
}

void TypedArray::set(std::int64_t index, double value) {
  std::byte* const to = bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  switch (dtype_) {
    case DType::kU8:
      return store(to, static_cast<std::uint8_t>(value));
    case DType::kI8:
      return store(to, static_cast<std::int8_t>(value));
    case DType::kU16:
      return store(to, static_cast<std::uint16_t>(value));
    case DType::kI16:
      return store(to, static_cast<std::int16_t>(value));
    case DType::kI32:
      return store(to, static_cast<std::int32_t>(value));
    case DType::kI64:
      return store(to, static_cast<std::int64_t>(value));
    case DType::kF16:
      return store(to, to_float16(static_cast<float>(value)));
    case DType::kBF16:
      return store(to, to_bfloat16(static_cast<float>(value)));
    case DType::kF32:
      return store(to, static_cast<float>(value));
    case DType::kF64:
      return store(to, value);
    case DType::kBool:
      return store(to, static_cast<std::uint8_t>(value != 0));
    case DType::kC64:
    case DType::kC128:
      return set_complex(index, value);
  }
}

void TypedArray::set_complex(std::int64_t index, std::complex<double> value) {
  std::byte* const to = bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  if (dtype_ == DType::kC64) return store(to, std::complex<float>(value));
  if (dtype_ == DType::kC128) return store(to, value);
  throw InternalError("a complex number in an array of " + std::string(name_of(dtype_)));
}

double TypedArray::at(std::int64_t index) const {
  const std::byte* const from = bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  switch (dtype_) {
    case DType::kU8:
      return load<std::uint8_t>(from);
    case DType::kI8:
      return load<std::int8_t>(from);
    case DType::kU16:
      return load<std::uint16_t>(from);
    case DType::kI16:
      return load<std::int16_t>(from);
    case DType::kI32:
      return load<std::int32_t>(from);
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(from));
    case DType::kF16:
      return to_float(load<Float16>(from));
    case DType::kBF16:
      return to_float(load<BFloat16>(from));
    case DType::kF32:
      return load<float>(from);
    case DType::kF64:
      return load<double>(from);
    case DType::kBool:
      return load<std::uint8_t>(from);
    case DType::kC64:
    case DType::kC128:
      return complex_at(index).real();
  }
  throw InternalError("unknown dtype");
}

std::complex<double> TypedArray::complex_at(std::int64_t index) const {
  const std::byte* const from = bytes_.data() + static_cast<std::size_t>(index) * size_of(dtype_);
  if (dtype_ == DType::kC64) return std::complex<double>(load<std::complex<float>>(from));
  if (dtype_ == DType::kC128) return load<std::complex<double>>(from);
  return at(index);
}

std::vector<double> TypedArray::values() const {
  std::vector<double> all;
  for (std::int64_t i = 0; i < numel_; ++i) all.push_back(at(i));
  return all;
}

}  // namespace hvd::engine::test
