#pragma once

#include <cstdint>

#include "bindings/native/bindings.h"

// The C ABI of DLPack, versions 1.x and the one before them: how libraries of arrays hand each
// other memory. Names and values are the standard's
// (https://dmlc.github.io/dlpack/latest/c_api.html).
namespace hvd::python::dlpack {

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint32_t kMinorVersion = 1;

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLMetal = 8,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLCUDAManaged = 13,
};

enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

inline constexpr std::uint64_t kReadOnlyFlag = 1;
inline constexpr std::uint64_t kIsCopiedFlag = 2;

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null = row-major
  std::uint64_t byte_offset;
};

inline constexpr const char* kPlainName = "dltensor";
inline constexpr const char* kVersionedName = "dltensor_versioned";

// In a capsule named kPlainName.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

// In a capsule named kVersionedName.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // namespace hvd::python::dlpack

// Arrays of other libraries (PyTorch, JAX, CuPy) by DLPack, in both directions.
namespace hvd::python {

enum class Access { kRead, kWrite };

// "torch.Tensor"
std::string type_name(const py::handle& object);

bool speaks_dlpack(const py::handle& object);

// Wraps the memory of an object with __dlpack__; a copy only where strides are negative and the
// memory is just read. Of what requires grad its detach(). Memory of the rank's GPU is for
// collectives: its producer makes import_stream() wait for it. Throws UnsupportedError on memory of
// another device, TypeError on a dtype that a tensor cannot have, InvalidArgumentError on memory
// that is read-only but to be written, py::buffer_error on a capsule that is none or was used.
Tensor tensor_from_dlpack(const py::handle& object, Access access);

// The library an array comes from: its array namespace, or else the module of the first of its
// classes that has from_dlpack; None if there is none.
py::object library_of(const py::handle& object);

// The tensor as an array of that library, which shares its memory.
py::object to_library(const Tensor& tensor, const py::object& library);

}  // namespace hvd::python
