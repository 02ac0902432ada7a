#include "core/base/dtype.h"

#include <array>

#include "core/base/status.h"

namespace hvd {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  bool floating;
};

// Indexed by the enum's value.
constexpr std::array<DTypeRow, kDTypeCount> kRows = {{{"uint8", 1, false},
                                                      {"int32", 4, false},
                                                      {"int64", 8, false},
                                                      {"float16", 2, true},
                                                      {"bfloat16", 2, true},
                                                      {"float32", 4, true},
                                                      {"float64", 8, true}}};

const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= kRows.size()) {
    throw InvalidArgumentError("unknown dtype number " + std::to_string(index));
  }
  return kRows[index];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return row(dtype).bytes;
}

std::string_view name_of(DType dtype) {
  return row(dtype).name;
}

bool is_floating(DType dtype) {
  return row(dtype).floating;
}

DType parse_dtype(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
    known += (i == 0 ? "" : ", ") + std::string(kRows[i].name);
  }
  throw InvalidArgumentError("unknown dtype '" + std::string(name) + "'; known: " + known);
}

}  // namespace hvd
