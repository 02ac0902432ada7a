#pragma once

#include <cstdint>
#include <string>

#include "core/base/tensor_view.h"
#include "core/runtime/submission.h"

namespace hvd {

// Whether no element is infinite or a NaN. Host memory of a floating dtype; others are finite.
bool is_finite(const TensorView& view);

// What HVD_CHECK_NAN says about this rank's part of a reduction, for Request::not_finite; `number`
// counts this rank's submissions. Empty when all is finite or the call does not sum or multiply.
// Reads the inputs: past the submission's `ready`. Memory of devices is not looked at.
std::string describe_not_finite(const Submission& submission, std::uint64_t number);

}  // namespace hvd
