#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/tensor_view.h"

namespace hvd::engine::test {

inline constexpr DType kAllDTypes[] = {
    DType::kU8,   DType::kI8,  DType::kU16, DType::kI16,  DType::kI32, DType::kI64, DType::kF16,
    DType::kBF16, DType::kF32, DType::kF64, DType::kBool, DType::kC64, DType::kC128};

// Numbers stored as elements of any dtype, written and read as doubles. What is not 0 is 1 as a
// bool; a complex element's imaginary part is 0 unless set.
class TypedArray {
 public:
  // Zeros.
  TypedArray(DType dtype, std::int64_t numel);
  // `values` must be exact in `dtype`; halves are rounded to nearest.
  TypedArray(DType dtype, std::span<const double> values);

  DType dtype() const { return dtype_; }
  std::int64_t numel() const { return numel_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  std::size_t bytes() const { return bytes_.size(); }
  TensorView view() { return {bytes_.data(), numel_, dtype_, {}}; }

  void set(std::int64_t index, double value);
  void set_complex(std::int64_t index, std::complex<double> value);  // complex dtypes only
  double at(std::int64_t index) const;                               // the real part
  std::complex<double> complex_at(std::int64_t index) const;
  std::vector<double> values() const;

  friend bool operator==(const TypedArray&, const TypedArray&) = default;  // bitwise

 private:
  DType dtype_;
  std::int64_t numel_;
  std::vector<std::byte> bytes_;
};

}  // namespace hvd::engine::test
