#pragma once

#include <cstdint>
#include <string>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::data {

// What the transforms do once their random numbers are drawn. `caller` is named in errors.
// Images are [channels, height, width]; results are new and contiguous.

// uint8 in 0 .. 255 to float32 in [0, 1], of any shape.
Tensor unit_floats(const Tensor& bytes);
// Throws InvalidArgumentError: neither uint8 nor float32.
[[noreturn]] void refuse_dtype(const Tensor& image, const char* caller);

// Throws InvalidArgumentError unless `image` has three axes, none of them empty.
void check_image(const Tensor& image, const char* caller);

// Any dtype. The window may reach over the edges: zeros are there.
Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
            std::int64_t width, const char* caller);

// Any dtype.
Tensor flip_horizontal(const Tensor& image, const char* caller);

// uint8 or float32; see transforms::Resize.
Tensor resize(const Tensor& image, std::int64_t height, std::int64_t width, const char* caller);

// uint8, or float32 in [0, 1]; three channels or one. Results are rounded towards zero and clamped,
// as torchvision's.
Tensor adjust_brightness(const Tensor& image, double factor, const char* caller);
Tensor adjust_contrast(const Tensor& image, double factor, const char* caller);
Tensor adjust_saturation(const Tensor& image, double factor, const char* caller);
Tensor adjust_hue(const Tensor& image, double turns, const char* caller);

}  // namespace hvd::data
