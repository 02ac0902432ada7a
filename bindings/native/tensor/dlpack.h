#pragma once

#include "bindings/native/bindings.h"
#include "bindings/native/tensor/dlpack_abi.h"

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

dlpack::DLDataType type_of(DType dtype);

void bind_dlpack_import(py::module_& m);

}  // namespace hvd::python
