#pragma once

#include <complex>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/ports/collective.h"
#include "test/support/collective_contract.h"
#include "test/support/typed_array.h"

// What the files of the Collective's contract share.
namespace hvd::engine::test {

using Operations = std::vector<std::unique_ptr<Operation>>;

// The arrays of one fused batch and the slices that point at them.
class Batch {
 public:
  void add(const TypedArray& input, bool in_place = false);
  // A slice of no elements and no memory.
  void add_nothing(DType dtype);
  // The i-th slice encodes with error feedback; the residuals are 0.
  void add_residual(std::size_t i);

  std::span<const Slice> slices() const { return slices_; }
  // The i-th array added, what it was and what it became.
  const TypedArray& input(std::size_t i) const { return inputs_[i]; }
  const TypedArray& output(std::size_t i) const { return in_place_[i] ? inputs_[i] : outputs_[i]; }
  TypedArray& input(std::size_t i) { return inputs_[i]; }

 private:
  std::deque<TypedArray> inputs_;  // a deque: elements keep their addresses
  std::deque<TypedArray> outputs_;
  std::deque<std::vector<float>> residuals_;
  std::vector<bool> in_place_;
  std::vector<Slice> slices_;
};

using Value = std::function<std::complex<double>(std::int64_t)>;

// Array of `numel` elements, element i being value(i); only complex dtypes have imaginary parts.
TypedArray make_array(DType dtype, std::int64_t numel, const Value& value);

// The same where value(i) is value(i % period): large arrays are quickly made.
TypedArray make_periodic(DType dtype, std::int64_t numel, std::int64_t period, const Value& value);

// Elements that tell rank, slice and place apart in every dtype but bool.
TypedArray marked_array(DType dtype, Rank rank, std::int64_t slice, std::int64_t numel);

// EXPECT_EQ that names the first element that differs.
void expect_same(const TypedArray& actual, const TypedArray& expected, const std::string& what);

void run_all_reduce(Collective& collective, const Batch& batch, const Reduction& reduction = {});

// Every rank's `mine`, one after the other.
TypedArray gathered(Collective& collective, const TypedArray& mine, int size);

// Polls all of them, each round in the order given, until all are finished. Throws
// std::runtime_error after 30 s, and what advance() throws.
void finish_in_order(Operations& operations, const std::vector<std::size_t>& order,
                     Collective& collective);
void finish_all(Operations& operations, Collective& collective);

// A period of contributions: element i of a rank is contribution(.., i % kPeriod).
inline constexpr std::int64_t kPeriod = 840;
// What a rank brings to a reduction: numbers that no dtype rounds over up to 11 ranks.
std::complex<double> contribution(ReduceOp op, DType dtype, Rank rank, std::int64_t i);
TypedArray contributions(ReduceOp op, DType dtype, Rank rank, std::int64_t numel);
// What becomes of them, worked out in f64 in rank order.
std::complex<double> combined(ReduceOp op, DType dtype, int size, std::int64_t i);
TypedArray combination(ReduceOp op, DType dtype, int size, std::int64_t numel);

// Numbers of many magnitudes, so that the order of additions shows in the last bits; by rank.
TypedArray wild_numbers(DType dtype, Rank rank, std::int64_t numel);
std::vector<TypedArray> wild_numbers_of_all(DType dtype, int size, std::int64_t numel);

void add_all_reduce_cases(std::vector<CollectiveCase>& cases);
void add_arena_cases(std::vector<CollectiveCase>& cases);     // all_reduce in place
void add_rounding_cases(std::vector<CollectiveCase>& cases);  // of all_reduce: order, bounds
void add_adasum_cases(std::vector<CollectiveCase>& cases);
void add_wire_cases(std::vector<CollectiveCase>& cases);
void add_scatter_cases(std::vector<CollectiveCase>& cases);     // reduce_scatter
void add_movement_cases(std::vector<CollectiveCase>& cases);    // broadcast, all_gather, exchange
void add_all_to_all_cases(std::vector<CollectiveCase>& cases);  // gather and scatter too
void add_transfer_cases(std::vector<CollectiveCase>& cases);    // send, receive
void add_subset_cases(std::vector<CollectiveCase>& cases);
void add_refusal_cases(std::vector<CollectiveCase>& cases);    // what has no meaning
void add_operation_cases(std::vector<CollectiveCase>& cases);  // many at a time, memory, fences

}  // namespace hvd::engine::test
