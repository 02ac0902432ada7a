#include "horovod_cpp/tensor/device.h"

#include <charconv>

#include "core/base/status.h"

namespace hvd {
namespace {

[[noreturn]] void refuse(const char* function, const Tensor& tensor) {
  throw UnsupportedError(std::string(function) + ": the " + std::string(name_of(tensor.dtype())) +
                         " tensor of shape " + to_string(tensor.shape()) + " is on " +
                         to_string(tensor.device()) + ", where there is no " + function +
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
  throw InvalidArgumentError("'" + std::string(name) +
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

DeviceMemory& memory_of(const Device& device) {
  const CudaTensors& cuda = cuda_tensors();
  if (cuda.memory == nullptr) {
    throw UnsupportedError("'" + to_string(device) + "' cannot be used: " + cuda.detail);
  }
  // Counting asks the driver; a device that was there stays.
  static const int devices = cuda.memory->devices();
  if (device.index >= 0 && device.index < devices) return *cuda.memory;
  const std::string found = cuda.memory->describe_devices();
  throw UnsupportedError("'" + to_string(device) + "' cannot be used: " +
                         (devices == 0 ? found
                                       : "there is no such device among " +
                                             std::to_string(devices) + " (" + found + ")"));
}

DeviceMemory& memory_of(const Tensor& tensor) {
  const Device device = tensor.device();
  DeviceMemory& memory = memory_of(device);
  if (tensor.stream() == memory.stream(device.index)) return memory;
  throw UnsupportedError("a tensor of shape " + to_string(tensor.shape()) + " on " +
                         to_string(device) +
                         " is memory of another library on a stream of its own: it can be "
                         "communicated and handed over, nothing else");
}

DeviceArithmetic& arithmetic_of(const Tensor& tensor) {
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
  throw InvalidArgumentError(std::string(function) + ": tensors on " + to_string(a.device()) +
                             " and " + to_string(b.device()) + ": move one with .to(device)");
}

}  // namespace hvd
