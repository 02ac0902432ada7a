#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/tensor_view.h"

namespace hvd {

namespace autograd {
struct Record;  // a tensor's place in the graph; defined in horovod_cpp/autograd
}

// An n-dimensional array with a dtype, a shape and strides: a handle on shared memory, like
// PyTorch's. Copies of a Tensor are the same tensor. It owns its memory or wraps memory that
// something else keeps alive. Different tensors may be used from different threads; one tensor
// being written may not be used from another.
//
// Every dtype can be made, wrapped, viewed, copied, converted, compared, saved and communicated.
// Arithmetic, autograd, nn and optim know uint8, int32, int64 and the floating dtypes; for the
// others they throw InvalidArgumentError naming the function and the dtype, but that bools add
// (or), multiply (and) and are summed and counted. A complex tensor converts to complex ones only.
class Tensor {
 public:
  Tensor() = default;  // undefined: holds nothing

  // -- making one (memory is 64-byte aligned; throws InvalidArgumentError on a bad shape)
  // In the memory of a device (tensor/device.h): throws UnsupportedError if it is not there, and
  // OutOfMemoryError naming it and the bytes.
  static Tensor empty(Shape shape, DType dtype = DType::kF32, Device device = Device());
  static Tensor zeros(Shape shape, DType dtype = DType::kF32, Device device = Device());
  static Tensor ones(Shape shape, DType dtype = DType::kF32, Device device = Device());
  // A value that an integer dtype does not reach to, and for bool anything but 0 and 1, throws
  // InvalidArgumentError; the same in arange, scalar and fill_.
  static Tensor full(Shape shape, double value, DType dtype = DType::kF32,
                     Device device = Device());
  static Tensor arange(std::int64_t count, DType dtype = DType::kI64);
  static Tensor scalar(double value, DType dtype = DType::kF32);
  // Copies `values`.
  static Tensor from(std::span<const float> values, Shape shape);
  static Tensor from(std::span<const double> values, Shape shape);
  static Tensor from(std::span<const std::int64_t> values, Shape shape);
  // Wraps memory that `owner` keeps alive. Strides in elements; empty = row-major.
  static Tensor wrap(void* data, Shape shape, DType dtype, std::shared_ptr<const void> owner,
                     std::vector<std::int64_t> strides = {});
  // The same for memory of a GPU. `stream`: the handle of the CUDA stream in whose order it is read
  // and written, as in DLPack; 0 = the default one. Such a tensor can be communicated and handed
  // over to other libraries; everything else throws UnsupportedError.
  static Tensor wrap_on(Device device, std::uintptr_t stream, void* data, Shape shape, DType dtype,
                        std::shared_ptr<const void> owner, std::vector<std::int64_t> strides = {});
  // Whether all who read the memory do so in the order of stream(), true at first. Otherwise
  // collectives that write into it end only when the device has done so. For memory of a GPU.
  bool in_stream_order() const;
  void set_in_stream_order(bool in_order);

  // -- facts
  bool defined() const noexcept { return impl_ != nullptr; }
  const Shape& shape() const;
  const std::vector<std::int64_t>& strides() const;  // in elements
  std::int64_t dim() const;                          // number of axes
  std::int64_t size(std::int64_t axis) const;        // negative counts from the end
  std::int64_t numel() const;
  DType dtype() const;
  Device device() const;
  std::uintptr_t stream() const;  // see wrap_on(); 0 for memory of the CPU
  bool is_contiguous() const;
  // True when both are handles on one tensor.
  bool is(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  const void* id() const noexcept { return impl_.get(); }
  // How many handles on this tensor there are.
  long handles() const noexcept { return impl_.use_count(); }

  // -- elements
  // Throws UnsupportedError for memory of a GPU.
  void* data() const;
  // Where they begin, on whatever device; for those who never read there.
  void* address() const;
  // Throws InvalidArgumentError unless T is the dtype's C++ type (float, double, std::int32_t,
  // std::int64_t, std::uint8_t, Float16, BFloat16, std::int8_t, std::uint16_t, std::int16_t, bool,
  // std::complex<float>, std::complex<double>).
  template <typename T>
  T* data() const;
  // The one element of a tensor of numel 1, as double; not of a complex one.
  double item() const;
  // All elements in row-major order, converted; not of a complex tensor.
  std::vector<double> to_vector() const;
  // Contiguous memory and its owner, for the engine. Throws InvalidArgumentError when not
  // contiguous. What is written through it or through data() goes unseen by autograd.
  Lease lease() const;

  // -- views (share memory; differentiable where the result's dtype is floating)
  Tensor reshape(Shape shape) const;  // one -1 is inferred; copies if a view is not possible
  // Merges the axes from the first to the last given.
  Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;
  Tensor permute(std::vector<std::int64_t> axes) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor t() const { return transpose(0, 1); }
  // Every step-th element of [begin, end); step > 0.
  Tensor slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
               std::int64_t step = 1) const;
  Tensor select(std::int64_t axis, std::int64_t index) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor squeeze(std::int64_t axis) const;
  Tensor expand(Shape shape) const;  // -1 keeps an extent
  Tensor detach() const;             // the same memory, outside the graph

  // -- copies
  Tensor contiguous() const;  // itself when it is
  Tensor clone() const;
  Tensor to(DType dtype) const;  // itself when it has this dtype
  // Itself when it is there; contiguous. Throws as empty() does.
  Tensor to(Device device) const;
  Tensor cpu() const { return to(Device{}); }
  Tensor cuda(int index = 0) const { return to(Device{DeviceKind::kCuda, index}); }

  // -- in place. Recorded where this tensor or the other one requires grad; then throws
  //    InvalidArgumentError naming the function, outside no_grad, for a leaf that requires grad,
  //    and for memory that another tensor shares: a view, or a value that backward() needs.
  Tensor& copy_(const Tensor& source);  // broadcasts and converts
  Tensor& fill_(double value);
  Tensor& zero_();
  // this += alpha * other. `other` broadcasts and has this tensor's dtype; so below. Numbers that
  // integers are multiplied with are whole; integers are taken modulo 2^bits.
  Tensor& add_(const Tensor& other, double alpha = 1.0);
  Tensor& sub_(const Tensor& other, double alpha = 1.0) { return add_(other, -alpha); }
  Tensor& mul_(double factor);
  Tensor& mul_(const Tensor& other);
  Tensor& div_(const Tensor& other);  // floating dtypes

  // -- autograd (defined in horovod_cpp/autograd)
  bool requires_grad() const;
  Tensor& requires_grad_(bool value = true);  // leaves of a floating dtype only
  bool is_leaf() const;
  // Undefined when there is none. It and set_grad() throw InvalidArgumentError while the gradient
  // is being reduced over ranks (see DistributedOptimizer).
  Tensor grad() const;
  void set_grad(Tensor grad);
  // Sums gradients into the leaves. `gradient` may be omitted for a tensor of numel 1. Frees the
  // graph as it goes, unless retain_graph; a second backward() through a freed graph throws
  // InvalidArgumentError, as does one that needs values which were modified in place since.
  // create_graph (implies retain_graph) records the gradients: see grad().
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  // Called with the leaf's full gradient as soon as backward() can add nothing more to it. Several
  // hooks run in the order they were added; the returned function removes this one.
  std::function<void()> register_hook(std::function<void(const Tensor& leaf)> hook) const;

  // -- internals shared with autograd
  std::shared_ptr<autograd::Record>& record() const;

  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

// "Tensor([2, 3], float32)" and the elements of small ones.
std::string to_string(const Tensor& tensor);
// "float32 [2, 3]", or "undefined".
std::string describe(const Tensor& tensor);

// Of all elements.
inline std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

// Same dtype, shape and bits.
bool bitwise_equal(const Tensor& a, const Tensor& b);

// Tensors with names, in an order that means something: what a state dict is.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace hvd
