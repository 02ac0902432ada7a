#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "core/observe/observer.h"

namespace hvd::engine::test {

// Time `us` after an arbitrary beginning.
inline TimePoint at_us(std::int64_t us) {
  return TimePoint(std::chrono::seconds(50)) + std::chrono::microseconds(us);
}

inline SubmissionInfo submission_of(std::uint64_t ticket, std::string_view name, TimePoint at) {
  return {.ticket = ticket, .name = name, .dtype = DType::kF16, .bytes = 96, .submitted = at};
}

// Negotiated at 10, started at 15, finished at 40 us; 3 us of packing, 4 of unpacking.
inline BatchInfo batch_of(RecycledVector<BatchMemberInfo> members, std::uint64_t number = 0,
                          std::int64_t begin_us = 0) {
  BatchInfo batch;
  batch.number = number;
  batch.dtype = DType::kF16;
  batch.bytes = 96;
  batch.packed_bytes = 48;
  batch.packing = std::chrono::microseconds(3);
  batch.unpacking = std::chrono::microseconds(4);
  batch.negotiated = at_us(begin_us + 10);
  batch.started = at_us(begin_us + 15);
  batch.finished = at_us(begin_us + 40);
  batch.members = std::move(members);
  return batch;
}

}  // namespace hvd::engine::test
