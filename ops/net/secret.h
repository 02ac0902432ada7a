#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace hvd {

// What all ends of one job know and nobody else does, drawn anew for each job.
using JobKey = std::array<std::byte, 32>;

JobKey draw_key();

// Takes equally long wherever the two differ; their lengths are no secret.
bool same_secret(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

}  // namespace hvd
