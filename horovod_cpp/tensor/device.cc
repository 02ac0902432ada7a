#include "horovod_cpp/tensor/device.h"

#include <array>
#include <charconv>

#include "core/base/status.h"
#include "horovod_cpp/tensor/backend.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

[[noreturn]] void refuse(const char* function, const Tensor& tensor) {
  throw UnsupportedError(function, ": the ", tensor.dtype(), " tensor of shape ", tensor.shape(),
                         " is on ", to_string(tensor.device()), ", where there is no ", function,
                         ": move it with .cpu() (layers on the GPU come later)");
}

}  // namespace

std::string to_string(const Device& device) {
  return device.kind == DeviceKind::kCpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

Device parse_device(std::string_view name) {
  if (name == "cpu" || name == "cpu:0") return {};
  if (name == "cuda") return {DeviceKind::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (name.starts_with(kPrefix)) {
    const std::string_view digits = name.substr(kPrefix.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) {
      return {DeviceKind::kCuda, index};
    }
  }
  throw InvalidArgumentError("'", name,
                             "' is not a device: expected cpu, cuda or cuda:0, cuda:1, ...");
}

namespace {

// Constant-initialised: it is registered while other objects are made before main().
using FindCudaTensors = CudaTensors (*)();
constinit FindCudaTensors find_cuda_tensors = nullptr;

}  // namespace

void register_cuda_tensors(CudaTensors (*find)()) {
  find_cuda_tensors = find;
}

const CudaTensors& cuda_tensors() {
  static const CudaTensors found =
      find_cuda_tensors != nullptr
          ? find_cuda_tensors()
          : CudaTensors{nullptr,
                        "this program links tensors without horovod_cpp/distributed, "
                        "which opens the module of GPUs; link hvd::horovod_cpp"};
  return found;
}

void synchronize(const Device& device) {
  if (device.kind != DeviceKind::kCpu) memory_of(device).synchronize(device.index);
}

engine::DeviceMemory& memory_of(const Device& device) {
  const CudaTensors& cuda = cuda_tensors();
  if (cuda.memory == nullptr) {
    throw UnsupportedError("'", to_string(device), "' cannot be used: ", cuda.detail);
  }
  // Counting asks the driver; a device that was there stays.
  static const int devices = cuda.memory->devices();
  if (device.index >= 0 && device.index < devices) return *cuda.memory;
  const std::string found = cuda.memory->describe_devices();
  throw UnsupportedError("'", to_string(device), "' cannot be used: ",
                         (devices == 0 ? found
                                       : "there is no such device among " +
                                             std::to_string(devices) + " (" + found + ")"));
}

engine::DeviceMemory& memory_of(const Tensor& tensor) {
  const Device device = tensor.device();
  engine::DeviceMemory& memory = memory_of(device);
  if (tensor.stream() == memory.stream(device.index)) return memory;
  throw UnsupportedError("a tensor of shape ", tensor.shape(), " on ", to_string(device),
                         " is memory of another library on a stream of its own: it can be "
                         "communicated and handed over, nothing else");
}

engine::DeviceArithmetic& arithmetic_of(const Tensor& tensor) {
  return memory_of(tensor).arithmetic(tensor.device().index);
}

std::uintptr_t stream_of(const Device& device) {
  return device.kind == DeviceKind::kCpu ? 0 : memory_of(device).stream(device.index);
}

void require_cpu(const char* function, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor->defined() && !is_on_cpu(*tensor)) refuse(function, *tensor);
  }
}

void require_same_device(const char* function, const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return;
  throw InvalidArgumentError(function, ": tensors on ", to_string(a.device()), " and ",
                             to_string(b.device()), ": move one with .to(device)");
}

namespace kernels {
namespace {

// As a device visits them.
template <std::size_t N>
engine::Strided<static_cast<int>(N)> strided(
    const char* function, const Shape& shape,
    const std::array<std::vector<std::int64_t>, N>& strides) {
  constexpr auto kOperands = static_cast<int>(N);
  engine::Strided<kOperands> result;
  const MergedAxes<N> merged = merge_axes<N>(shape, strides);
  if (merged.empty) return result;
  if (merged.extents.size() > engine::Strided<kOperands>::kMostAxes) {
    throw UnsupportedError(function, ": on a GPU tensors have at most ",
                           engine::Strided<kOperands>::kMostAxes,
                           " axes that lie apart in memory, this of shape ", shape, " has ",
                           merged.extents.size(), ": make it contiguous()");
  }
  result.numel = 1;
  for (const std::int64_t extent : merged.extents) {
    const int axis = result.axes++;
    result.numel *= extent;
    result.extent[axis] = extent;
    for (std::size_t n = 0; n < N; ++n) {
      result.step[axis][n] = merged.steps[static_cast<std::size_t>(axis)][n];
    }
  }
  return result;
}

std::vector<std::int64_t> strides_in(const Tensor& operand, const Shape& shape,
                                     const char* function) {
  return shapes::broadcast_strides(operand.shape(), operand.strides(), shape, function);
}

namespace device {

Tensor unary(engine::Unary op, const Tensor& a, const char* function) {
  Tensor result = Tensor::empty(a.shape(), a.dtype(), a.device());
  arithmetic_of(a).unary(op, a.dtype(),
                         strided<2>(function, a.shape(), {result.strides(), a.strides()}),
                         result.address(), a.address());
  return result;
}

Tensor binary(engine::Binary op, const Tensor& a, const Tensor& b, const char* function) {
  static_cast<void>(arithmetic_of(b));  // throws where it may not be read in this order
  const Shape shape = shapes::broadcast(a.shape(), b.shape(), function);
  Tensor result = Tensor::empty(shape, a.dtype(), a.device());
  arithmetic_of(a).binary(op, a.dtype(),
                          strided<3>(function, shape,
                                     {result.strides(), strides_in(a, shape, function),
                                      strides_in(b, shape, function)}),
                          result.address(), a.address(), b.address());
  return result;
}

void add_into(const Tensor& target, const Tensor& source, double alpha) {
  static_cast<void>(arithmetic_of(source));
  arithmetic_of(target).add_scaled(
      target.dtype(),
      strided<2>("add_", target.shape(),
                 {target.strides(), strides_in(source, target.shape(), "add_")}),
      target.address(), source.address(), alpha);
}

void scale(const Tensor& target, double factor) {
  arithmetic_of(target).scale(target.dtype(),
                              strided<1>("mul_", target.shape(), {target.strides()}),
                              target.address(), factor);
}

void copy_into(const Tensor& target, const Tensor& source) {
  static_cast<void>(arithmetic_of(source));
  arithmetic_of(target).copy(
      strided<2>("copy", target.shape(),
                 {target.strides(), strides_in(source, target.shape(), "copy")}),
      target.dtype(), target.address(), source.dtype(), source.address());
}

void fill(const Tensor& target, double value) {
  dispatch_any(target.dtype(), [&](auto tag) {
    const auto element = convert<typename decltype(tag)::type>(value);
    arithmetic_of(target).fill(strided<1>("fill_", target.shape(), {target.strides()}),
                               sizeof element, target.address(), &element);
  });
}

Tensor sum(const Tensor& a, const std::vector<bool>& mask) {
  Shape kept_shape;
  Shape reduced_shape;
  std::vector<std::int64_t> kept_strides;
  std::vector<std::int64_t> reduced_strides;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    (mask[i] ? reduced_shape : kept_shape).push_back(a.shape()[i]);
    (mask[i] ? reduced_strides : kept_strides).push_back(a.strides()[i]);
  }
  const DType dtype = is_floating(a.dtype()) ? a.dtype() : DType::kI64;
  Tensor result = Tensor::empty(shapes::reduced(a.shape(), mask, true), dtype, a.device());
  arithmetic_of(a).sum(a.dtype(),
                       {strided<1>("sum", kept_shape, {kept_strides}),
                        strided<1>("sum", reduced_shape, {reduced_strides})},
                       result.address(), a.address());
  return result;
}

}  // namespace device

constexpr Backend kHost = {host::unary,     host::binary, host::add_into, host::scale,
                           host::copy_into, host::fill,   host::sum};
constexpr Backend kDevice = {device::unary,     device::binary, device::add_into, device::scale,
                             device::copy_into, device::fill,   device::sum};

}  // namespace

const Backend& backend_of(const Tensor& tensor) {
  return is_on_cpu(tensor) ? kHost : kDevice;
}

const Backend& backend_of(const char* function, const Tensor& a, const Tensor& b) {
  require_same_device(function, a, b);
  return backend_of(a);
}

}  // namespace kernels
}  // namespace hvd
