#include <algorithm>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "ops/cuda/copy.h"

namespace hvd::engine {

void check_copy(const CopyRule& rule) {
  if (rule.from != rule.to && !(is_floating(rule.from) && is_floating(rule.to))) {
    throw InvalidArgumentError("a copy converts between floating dtypes, not from " +
                               std::string(name_of(rule.from)) + " to " +
                               std::string(name_of(rule.to)));
  }
  if (rule.from == DType::kBool && rule.factor != 1.0) {
    throw InvalidArgumentError("a copy of bool takes no scale, not " + std::to_string(rule.factor));
  }
}

void plan_copy(std::span<const CopyPiece> pieces, const CopySizes& sizes,
               const std::function<void(const CopyLaunch&)>& launch) {
  const auto table = std::make_unique<CopyLaunch>();  // too large for a stack
  const auto flush = [&] {
    if (table->pieces != 0) launch(*table);
    table->pieces = 0;
    table->tiles = 0;
  };
  for (CopyPiece rest : pieces) {
    if (rest.numel < 0) {
      throw InvalidArgumentError("a copy of a negative number of elements: " +
                                 std::to_string(rest.numel));
    }
    while (rest.numel > 0) {
      if (table->pieces == CopyLaunch::kMostPieces || table->tiles == kMostTiles) flush();
      const auto room = static_cast<std::int64_t>(kMostTiles - table->tiles);
      const std::int64_t tiles = std::min(room, (rest.numel - 1) / sizes.tile + 1);
      const std::int64_t numel = std::min(rest.numel, tiles * sizes.tile);
      table->first_tile[table->pieces] = table->tiles;
      table->piece[table->pieces] = {rest.from, rest.to, numel};
      ++table->pieces;
      table->tiles += static_cast<std::uint32_t>(tiles);
      rest = {static_cast<const std::byte*>(rest.from) + numel * sizes.from,
              static_cast<std::byte*>(rest.to) + numel * sizes.to, rest.numel - numel};
    }
  }
  flush();
}

}  // namespace hvd::engine
