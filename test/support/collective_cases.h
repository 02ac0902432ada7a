#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/collective.h"
#include "test/support/collective_contract.h"
#include "test/support/typed_array.h"

// What the files of the Collective's contract share.
namespace hvd::test {

// The arrays of one fused batch and the slices that point at them.
class Batch {
 public:
  void add(const TypedArray& input, bool in_place = false);
  // A slice of no elements and no memory.
  void add_nothing(DType dtype);

  std::span<const Slice> slices() const { return slices_; }
  // The i-th array added, what it was and what it became.
  const TypedArray& input(std::size_t i) const { return inputs_[i]; }
  const TypedArray& output(std::size_t i) const { return in_place_[i] ? inputs_[i] : outputs_[i]; }
  TypedArray& input(std::size_t i) { return inputs_[i]; }

 private:
  std::deque<TypedArray> inputs_;  // a deque: elements keep their addresses
  std::deque<TypedArray> outputs_;
  std::vector<bool> in_place_;
  std::vector<Slice> slices_;
};

// Array of `numel` elements, element i being value(i).
TypedArray make_array(DType dtype, std::int64_t numel,
                      const std::function<double(std::int64_t)>& value);

// The same where value(i) is value(i % period): large arrays are quickly made.
TypedArray make_periodic(DType dtype, std::int64_t numel, std::int64_t period,
                         const std::function<double(std::int64_t)>& value);

// EXPECT_EQ that names the first element that differs.
void expect_same(const TypedArray& actual, const TypedArray& expected, const std::string& what);

void add_all_reduce_cases(std::vector<CollectiveCase>& cases);
void add_movement_cases(std::vector<CollectiveCase>& cases);   // broadcast, all_gather, exchange
void add_operation_cases(std::vector<CollectiveCase>& cases);  // many at a time, memory, fences

}  // namespace hvd::test
