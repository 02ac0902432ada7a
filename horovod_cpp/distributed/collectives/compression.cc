#include "horovod_cpp/distributed/collectives/compression.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/matmul/matmul.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {

std::vector<Tensor> TensorCompressor::next_round(int round, std::vector<Tensor>) {
  throw InternalError("a compressor of " + std::to_string(rounds()) +
                      " rounds does not say what round " + std::to_string(round) + " reduces");
}

Compression Compression::powersgd(int rank) {
  return Compression(std::make_shared<PowerSgd>(rank));
}

std::string Compression::name() const {
  return compressor_ != nullptr ? compressor_->name() : std::string(name_of(wire_));
}

namespace {

// FNV-1a: equal on every platform.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

// Makes the columns of a row-major [rows, columns] matrix orthonormal, in order (modified
// Gram-Schmidt, twice, which is enough). A column that depends on those before it becomes 0.
template <typename T>
void orthonormalize(T* matrix, std::int64_t rows, std::int64_t columns) {
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      sum += static_cast<double>(matrix[i * columns + a]) * matrix[i * columns + b];
    }
    return sum;
  };
  constexpr double kDependent = std::is_same_v<T, double> ? 1e-12 : 1e-5;
  for (std::int64_t column = 0; column < columns; ++column) {
    const double before = std::sqrt(dot(column, column));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t other = 0; other < column; ++other) {
        const double along = dot(column, other);
        for (std::int64_t i = 0; i < rows; ++i) {
          matrix[i * columns + column] -= static_cast<T>(along * matrix[i * columns + other]);
        }
      }
    }
    const double norm = std::sqrt(dot(column, column));
    const double factor = norm > kDependent * before ? 1 / norm : 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      matrix[i * columns + column] = static_cast<T>(factor * matrix[i * columns + column]);
    }
  }
}

class LowRank final : public TensorCompressor {
 public:
  LowRank(std::uint64_t seed, std::int64_t rows, std::int64_t columns, std::int64_t rank,
          DType dtype)
      : generator_(seed),
        error_(Tensor::zeros({rows, columns}, dtype)),
        q_(randn({columns, rank}, dtype, generator_)) {}

  int rounds() const override { return 2; }

  std::vector<Tensor> compress(const Tensor& tensor) override {
    kernels::add_into(error_, kernels::reshape(tensor, error_.shape()), 1.0);
    return {kernels::matmul(error_, false, q_, false)};
  }

  std::vector<Tensor> next_round(int, std::vector<Tensor> reduced) override {
    p_ = std::move(reduced.front());
    dispatch_float(p_.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      orthonormalize(p_.data<T>(), p_.size(0), p_.size(1));
    });
    q_ = kernels::matmul(error_, true, p_, false);
    kernels::add_into(error_, kernels::matmul(p_, false, q_, true), -1.0);
    return {q_};
  }

  void decompress(std::vector<Tensor> reduced, const Tensor& output) override {
    q_ = std::move(reduced.front());
    kernels::copy_into(output,
                       kernels::reshape(kernels::matmul(p_, false, q_, true), output.shape()));
    p_ = {};
    refresh_empty_columns();
  }

 private:
  // A column that found nothing would find nothing ever after.
  void refresh_empty_columns() {
    const Tensor fresh = randn(q_.shape(), q_.dtype(), generator_);
    dispatch_float(q_.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const std::int64_t rows = q_.size(0), columns = q_.size(1);
      for (std::int64_t column = 0; column < columns; ++column) {
        bool empty = true;
        for (std::int64_t i = 0; i < rows; ++i) {
          empty = empty && q_.data<T>()[i * columns + column] == 0;
        }
        if (!empty) continue;
        for (std::int64_t i = 0; i < rows; ++i) {
          q_.data<T>()[i * columns + column] = fresh.data<T>()[i * columns + column];
        }
      }
    });
  }

  Generator generator_;
  Tensor error_;  // what this rank's tensors lost so far; during a call, the matrix itself
  Tensor q_;      // where the next power iteration starts; equal on all ranks between calls
  Tensor p_;
};

}  // namespace

PowerSgd::PowerSgd(int rank) : rank_(rank) {
  if (rank < 1) {
    throw InvalidArgumentError("powersgd: rank " + std::to_string(rank) + " must be at least 1");
  }
}

std::string PowerSgd::name() const {
  return "powersgd(" + std::to_string(rank_) + ")";
}

std::shared_ptr<TensorCompressor> PowerSgd::for_tensor(const std::string& name, const Shape& shape,
                                                       DType dtype) {
  if (shape.size() < 2 || (dtype != DType::kF32 && dtype != DType::kF64)) return nullptr;
  const std::int64_t rows = shape.front();
  const std::int64_t columns = rows == 0 ? 0 : numel_of(shape) / rows;
  if (rows * columns == 0) return nullptr;
  if (rank_ >= std::min(rows, columns) || 2 * rank_ * (rows + columns) > rows * columns) {
    return nullptr;
  }
  return std::make_shared<LowRank>(hash(name), rows, columns, rank_, dtype);
}

}  // namespace hvd
