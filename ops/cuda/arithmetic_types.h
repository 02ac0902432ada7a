#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/status.h"
#include "ops/cuda/arithmetic_tile.h"
#include "ops/device/device_memory.h"

// From dtypes to the types of the kernels.
namespace hvd::engine::cuda {

template <typename T>
struct ElementType {
  using type = T;
};

[[noreturn]] inline void refuse_dtype(const char* what, DType dtype) {
  throw InternalError(std::string(what) + " of " + std::string(name_of(dtype)) + " on a device");
}

template <typename Body>
void with_floating(const char* what, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF16:
      return body(ElementType<Float16>{});
    case DType::kBF16:
      return body(ElementType<BFloat16>{});
    case DType::kF32:
      return body(ElementType<float>{});
    case DType::kF64:
      return body(ElementType<double>{});
    default:
      refuse_dtype(what, dtype);
  }
}

template <typename Body>
void with_arithmetic(const char* what, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kU8:
      return body(ElementType<std::uint8_t>{});
    case DType::kI32:
      return body(ElementType<std::int32_t>{});
    case DType::kI64:
      return body(ElementType<std::int64_t>{});
    default:
      return with_floating(what, dtype, body);
  }
}

template <typename Body>
void with_bits(std::size_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(ElementType<std::uint8_t>{});
    case 2:
      return body(ElementType<std::uint16_t>{});
    case 4:
      return body(ElementType<std::uint32_t>{});
    case 8:
      return body(ElementType<std::uint64_t>{});
    default:
      return body(ElementType<TwoWords>{});
  }
}

// In how many parts each sum of a shape is made; a function of the shape alone.
inline std::int64_t sum_parts(const SumShape& shape) {
  constexpr std::int64_t kOfAThread = 64;  // elements that one adds up
  constexpr std::int64_t kThreadsAll = 1 << 16;
  const std::int64_t most = std::max<std::int64_t>(1, kThreadsAll / shape.kept.numel);
  return std::clamp<std::int64_t>(shape.reduced.numel / kOfAThread, 1, most);
}

// The sums of parts that lie part after part.
inline SumShape sum_of_parts(std::int64_t kept, std::int64_t parts) {
  SumShape shape;
  shape.kept = {kept, 1, {kept}, {{1}}};
  shape.reduced = {parts, 1, {parts}, {{kept}}};
  return shape;
}

// Memory that is given back as soon as what was asked for is done.
class Scratch {
 public:
  Scratch(DeviceMemory& memory, int device, std::size_t bytes)
      : memory_(memory), device_(device), data_(memory.allocate(device, bytes)) {
    if (data_ != nullptr) return;
    throw PeerLostError("cuda:" + std::to_string(device) + ": no memory for " +
                        std::to_string(bytes) + " bytes that a sum needs meanwhile");
  }
  ~Scratch() { memory_.deallocate(device_, data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  DeviceMemory& memory_;
  int device_;
  void* data_;
};

// `Run` is called as run(count, apply): apply(i) for each i below count, which is not 0.
template <typename Run>
class Arithmetic final : public DeviceArithmetic {
 public:
  Arithmetic(const Run& run, int device, DeviceMemory& memory)
      : run_(run), device_(device), memory_(memory) {}

  void fill(const Strided<1>& shape, std::size_t bytes, void* out, const void* element) override {
    with_bits(bytes, [&](auto type) {
      using Bits = typename decltype(type)::type;
      Bits value{};
      std::memcpy(&value, element, sizeof value);
      run(shape.numel, Fill<Bits>{shape, static_cast<Bits*>(out), value});
    });
  }

  void copy(const Strided<2>& shape, DType to, void* out, DType from, const void* in) override {
    if (is_complex(from) && !is_complex(to)) refuse_dtype("a real copy", from);
    if (to != from) return run(shape.numel, ConvertedCopy{shape, to, from, out, in});
    with_bits(size_of(to), [&](auto type) {
      using Bits = typename decltype(type)::type;
      run(shape.numel,
          PlainCopy<Bits>{shape, static_cast<Bits*>(out), static_cast<const Bits*>(in)});
    });
  }

  void unary(Unary op, DType dtype, const Strided<2>& shape, void* out, const void* in) override {
    with_floating("a function", dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      run(shape.numel, UnaryOf<T>{shape, op, static_cast<T*>(out), static_cast<const T*>(in)});
    });
  }

  void binary(Binary op, DType dtype, const Strided<3>& shape, void* out, const void* a,
              const void* b) override {
    if (!is_floating(dtype) && !takes_integers(op)) refuse_dtype("a combination", dtype);
    with_arithmetic("a combination", dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      run(shape.numel, BinaryOf<T>{shape, op, static_cast<T*>(out), static_cast<const T*>(a),
                                   static_cast<const T*>(b)});
    });
  }

  void add_scaled(DType dtype, const Strided<2>& shape, void* out, const void* in,
                  double alpha) override {
    with_arithmetic("a sum", dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      run(shape.numel, AddScaled<T>{shape, static_cast<T*>(out), static_cast<const T*>(in),
                                    static_cast<Accumulator<T>>(alpha)});
    });
  }

  void scale(DType dtype, const Strided<1>& shape, void* out, double factor) override {
    with_arithmetic("a scale", dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      run(shape.numel, Scale<T>{shape, static_cast<T*>(out), factor});
    });
  }

  void sum(DType dtype, const SumShape& shape, void* out, const void* in) override {
    if (shape.kept.numel == 0) return;
    with_arithmetic("a sum", dtype == DType::kBool ? DType::kU8 : dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      if constexpr (std::is_integral_v<T>) {
        sum_in<std::int64_t>(shape, static_cast<std::int64_t*>(out), static_cast<const T*>(in));
      } else {
        sum_in<double>(shape, static_cast<T*>(out), static_cast<const T*>(in));
      }
    });
  }

  void sgd(const SgdRule<float>& rule, std::int64_t n, float* param, const float* grad,
           float* buffer) override {
    run(n, SgdOf<float>{rule, param, grad, buffer});
  }
  void sgd(const SgdRule<double>& rule, std::int64_t n, double* param, const double* grad,
           double* buffer) override {
    run(n, SgdOf<double>{rule, param, grad, buffer});
  }
  void adam(const AdamRule<float>& rule, std::int64_t n, float* param, const float* grad,
            float* mean, float* square, float* largest) override {
    run(n, AdamOf<float>{rule, param, grad, mean, square, largest});
  }
  void adam(const AdamRule<double>& rule, std::int64_t n, double* param, const double* grad,
            double* mean, double* square, double* largest) override {
    run(n, AdamOf<double>{rule, param, grad, mean, square, largest});
  }

 private:
  template <typename Apply>
  void run(std::int64_t count, const Apply& apply) const {
    if (count > 0) run_(count, apply);
  }

  // `Wide` is what parts of sums are kept in.
  template <typename Wide, typename In, typename Out>
  void sum_in(const SumShape& shape, Out* out, const In* in) {
    const std::int64_t kept = shape.kept.numel;
    const std::int64_t parts = sum_parts(shape);
    if (parts == 1) return run(kept, SumOf<In, Out>{shape, 1, out, in});
    const Scratch scratch(memory_, device_, static_cast<std::size_t>(kept * parts) * sizeof(Wide));
    auto* wide = static_cast<Wide*>(scratch.data());
    run(kept * parts, SumOf<In, Wide>{shape, parts, wide, in});
    sum_in<Wide>(sum_of_parts(kept, parts), out, static_cast<const Wide*>(wide));
  }

  Run run_;
  int device_;
  DeviceMemory& memory_;
};

}  // namespace hvd::engine::cuda
