#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/tensor_view.h"

namespace hvd::test {

inline constexpr DType kAllDTypes[] = {DType::kU8,   DType::kI32, DType::kI64, DType::kF16,
                                       DType::kBF16, DType::kF32, DType::kF64};

// Numbers stored as elements of any dtype, written and read as doubles.
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
  double at(std::int64_t index) const;
  std::vector<double> values() const;

  friend bool operator==(const TypedArray&, const TypedArray&) = default;  // bitwise

 private:
  DType dtype_;
  std::int64_t numel_;
  std::vector<std::byte> bytes_;
};

}  // namespace hvd::test
