#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Memory that tensors share. `version` counts writes in place, so that autograd can tell whether
// what it saved still has the values it had.
struct Storage {
  explicit Storage(std::size_t size);
  Storage(void* memory, std::shared_ptr<const void> keeper, Device where = {},
          std::uintptr_t order = 0)
      : data(memory), owner(std::move(keeper)), device(where), stream(order) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data = nullptr;
  std::size_t bytes = 0;              // of our own memory
  std::shared_ptr<const void> owner;  // of memory that is not ours
  std::atomic<std::uint64_t> version{0};
  Device device;
  std::uintptr_t stream = 0;    // see Tensor::wrap_on()
  bool in_stream_order = true;  // see Tensor::in_stream_order()
};

struct Tensor::Impl {
  std::shared_ptr<Storage> storage;
  std::byte* data = nullptr;  // first element
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::int64_t> strides;  // in elements
  std::int64_t numel = 0;
  bool contiguous = true;
  std::shared_ptr<autograd::Record> record;
};

// The Impl behind a defined tensor; throws InvalidArgumentError naming `function` otherwise.
Tensor::Impl& impl_of(const Tensor& tensor, const char* function = "Tensor");

// A tensor over (part of) `base`'s memory, outside the graph. `offset` in elements.
Tensor make_view(const Tensor& base, Shape shape, std::vector<std::int64_t> strides,
                 std::int64_t offset = 0);

// Every function that writes into existing memory calls this.
void bump_version(const Tensor& tensor);

std::uint64_t version_of(const Tensor& tensor);

// No other tensor, lease or record can see this tensor or its memory.
bool is_sole_owner(const Tensor& tensor);

}  // namespace hvd
