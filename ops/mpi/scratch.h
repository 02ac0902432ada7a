#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/collective.h"

namespace hvd {

// Memory that operations borrow one after the other: fresh pages cost more than what is done with
// them. Not thread-safe.
class ScratchPool {
 public:
  // At least `bytes`, 64-byte aligned, holding anything.
  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer);

 private:
  std::vector<Buffer> free_;
  std::size_t free_bytes_ = 0;
};

// What one piece of an operation borrowed. Gives it back when it is destroyed.
class Scratch {
 public:
  explicit Scratch(ScratchPool& pool) : pool_(pool) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* take(std::size_t bytes);

 private:
  ScratchPool& pool_;
  std::vector<Buffer> taken_;
};

}  // namespace hvd
