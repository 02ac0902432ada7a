#include "core/base/dtype.h"

#include <array>

#include "core/base/status.h"

namespace hvd {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  enum { kInteger, kFloating, kComplex } sort;
};

// Indexed by the enum's value.
constexpr std::array<DTypeRow, kDTypeCount> kRows = {{{"uint8", 1, DTypeRow::kInteger},
                                                      {"int32", 4, DTypeRow::kInteger},
                                                      {"int64", 8, DTypeRow::kInteger},
                                                      {"float16", 2, DTypeRow::kFloating},
                                                      {"bfloat16", 2, DTypeRow::kFloating},
                                                      {"float32", 4, DTypeRow::kFloating},
                                                      {"float64", 8, DTypeRow::kFloating},
                                                      {"int8", 1, DTypeRow::kInteger},
                                                      {"uint16", 2, DTypeRow::kInteger},
                                                      {"int16", 2, DTypeRow::kInteger},
                                                      {"bool", 1, DTypeRow::kInteger},
                                                      {"complex64", 8, DTypeRow::kComplex},
                                                      {"complex128", 16, DTypeRow::kComplex}}};

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
  return row(dtype).sort == DTypeRow::kFloating;
}

bool is_complex(DType dtype) {
  return row(dtype).sort == DTypeRow::kComplex;
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
