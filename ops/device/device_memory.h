#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/dtype.h"
#include "ops/device/operation.h"
#include "ops/device/strided.h"
#include "ops/device/update.h"

namespace hvd::engine {

// Arithmetic in the memory of one device, in the order of the calls; nothing waits for the device.
// Pointers are to the first position of an operand, in memory of this device that lives until the
// work is done: what is freed by DeviceMemory::deallocate() after the call does. Outputs do not
// overlap inputs unless they are the same elements. Halves are computed in float and rounded to
// nearest, ties to even. Any thread. Throws PeerLostError when the device fails.
class DeviceArithmetic {
 public:
  virtual ~DeviceArithmetic() = default;

  // `element` is one of `bytes` (1, 2, 4, 8 or 16) bytes, read at once.
  virtual void fill(const Strided<1>& shape, std::size_t bytes, void* out, const void* element) = 0;
  // Converts as C++ does, what is not 0 to true, and to halves by way of float; steps of output and
  // input. There is no conversion from complex to real ones: throws InternalError.
  virtual void copy(const Strided<2>& shape, DType to, void* out, DType from, const void* in) = 0;
  // Floating dtypes.
  virtual void unary(Unary op, DType dtype, const Strided<2>& shape, void* out, const void* in) = 0;
  // Floating dtypes; those of takes_integers() also u8, i32, i64.
  virtual void binary(Binary op, DType dtype, const Strided<3>& shape, void* out, const void* a,
                      const void* b) = 0;
  // out += alpha * in; dtypes with arithmetic, integers modulo 2^bits with alpha's whole part.
  virtual void add_scaled(DType dtype, const Strided<2>& shape, void* out, const void* in,
                          double alpha) = 0;
  // out *= factor; integers and halves by way of double.
  virtual void scale(DType dtype, const Strided<1>& shape, void* out, double factor) = 0;
  // `out` is dense, a position of `kept` after the other, of the input's dtype or, for integers
  // (bool among them), i64. Floats add up in double and are rounded once, in an order that depends
  // on the shape alone.
  virtual void sum(DType dtype, const SumShape& shape, void* out, const void* in) = 0;

  // Of n elements; arrays do not overlap, and what may be null is as in optim/rules.h.
  virtual void sgd(const SgdRule<float>& rule, std::int64_t n, float* param, const float* grad,
                   float* buffer) = 0;
  virtual void sgd(const SgdRule<double>& rule, std::int64_t n, double* param, const double* grad,
                   double* buffer) = 0;
  virtual void adam(const AdamRule<float>& rule, std::int64_t n, float* param, const float* grad,
                    float* mean, float* square, float* largest) = 0;
  virtual void adam(const AdamRule<double>& rule, std::int64_t n, double* param, const double* grad,
                    double* mean, double* square, double* largest) = 0;
};

// The devices of one kind, and their memory. Each device has one queue: allocations, copies and
// arithmetic happen in the order of the calls, whichever threads make them. Any thread. Throws
// PeerLostError when the device fails.
class DeviceMemory {
 public:
  // How many there are, and what they are called or why there are none.
  virtual int devices() const = 0;
  virtual std::string describe_devices() const = 0;

  // Memory that is not set, aligned to 256 bytes; null if the device has no more. `bytes` is not 0.
  virtual void* allocate(int device, std::size_t bytes) = 0;
  // After what was asked for so far.
  virtual void deallocate(int device, void* data) noexcept = 0;

  // Returns when the host's memory may be written.
  virtual void copy_from_host(int device, void* to, const void* from, std::size_t bytes) = 0;
  // Returns when the host's memory holds what the device was asked for so far.
  virtual void copy_to_host(int device, void* to, const void* from, std::size_t bytes) = 0;
  // After what both devices were asked for so far; what they are asked for later comes after it.
  virtual void copy_between(int to_device, void* to, int from_device, const void* from,
                            std::size_t bytes) = 0;
  // Returns when the device did all it was asked for.
  virtual void synchronize(int device) = 0;

  virtual DeviceArithmetic& arithmetic(int device) = 0;
  // The queue's handle, as libraries of arrays hand it over: a cudaStream_t as an integer.
  virtual std::uintptr_t stream(int device) = 0;

 protected:
  ~DeviceMemory() = default;
};

}  // namespace hvd::engine
