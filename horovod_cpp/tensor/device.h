#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/base/tensor_view.h"
#include "horovod_cpp/tensor/tensor.h"
#include "ops/device/device_memory.h"

// Tensors on a GPU. Each device has one queue, on which what tensors are asked for happens in the
// order of the calls, whichever threads make them; calls return before the device is done. What
// reads values on the host (item(), to_vector(), printing, .cpu(), copies to the CPU) waits for it.
//
// There are: creation, copies and conversions, views, concat, + - * / and their in-place forms,
// neg, abs, square, reciprocal, exp, log, sqrt, rsqrt, tanh, sigmoid, relu, sin, cos, erf, log1p,
// sum and mean, with first gradients; sign, maximum, minimum and clamp without; the updates of SGD,
// Adam and AdamW; and collectives. Everything else throws UnsupportedError that names it. Results
// have the host's bits, except: exp, log, tanh, sigmoid and what else the C library computes; sums;
// and what the host may contract into fused multiply-adds: add_(other, alpha) and the gradient of
// tanh. Numbers that an integer dtype does not reach to are converted as the device does it.
namespace hvd {

// "cpu", "cuda:0"
std::string to_string(const Device& device);

// Inverse of to_string(); "cuda" is "cuda:0" and "cpu:0" is "cpu". Throws InvalidArgumentError.
Device parse_device(std::string_view name);

// Returns when the device did what tensors were asked for so far; at once for the CPU.
void synchronize(const Device& device);

// What may be asked of GPUs in this process.
struct CudaTensors {
  engine::DeviceMemory* memory = nullptr;  // lives as long as the process; null: `detail` says why
  std::string detail;
};
// Opens the module of GPUs the first time. Null memory in a program that links none of
// horovod_cpp/distributed, the one folder here that knows modules.
const CudaTensors& cuda_tensors();
// How cuda_tensors() finds out. Called before main(), by horovod_cpp/distributed.
void register_cuda_tensors(CudaTensors (*find)());

// Of a device that is no CPU. Throws UnsupportedError that says why there is no such device.
engine::DeviceMemory& memory_of(const Device& device);
// Of a tensor on a device. Throws UnsupportedError if the tensor wraps memory that is used in the
// order of another library's stream: it may be communicated and handed over only.
engine::DeviceMemory& memory_of(const Tensor& tensor);
engine::DeviceArithmetic& arithmetic_of(const Tensor& tensor);
// The handle of the device's queue, a CUDA stream; 0 for the CPU.
std::uintptr_t stream_of(const Device& device);

// For operations of the CPU alone: throws UnsupportedError naming `function` if a tensor is on a
// GPU. Undefined tensors pass.
void require_cpu(const char* function, std::initializer_list<const Tensor*> tensors);
// Throws InvalidArgumentError naming `function` and both devices.
void require_same_device(const char* function, const Tensor& a, const Tensor& b);

inline bool is_on_cpu(const Tensor& tensor) {
  return tensor.device().kind == DeviceKind::kCpu;
}

}  // namespace hvd
