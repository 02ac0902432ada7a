#include "test/bench/engine_ways.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "horovod_cpp/distributed/gradients/gradient_views.h"
#include "horovod_cpp/horovod.h"

namespace hvd::bench {
namespace {

void sum_in_place(float* data, std::size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Each tensor in memory of its own.
class Hvd : public Way {
 public:
  explicit Hvd(const GradientSet& sizes, const std::string& prefix = "gradient.") {
    for (const std::int64_t size : sizes) {
      tensors_.push_back(Tensor::zeros({size}));
      options_.push_back({.op = ReduceOp::kSum, .name = prefix + std::to_string(options_.size())});
    }
    handles_.reserve(sizes.size());
  }
  std::span<float> tensor(std::size_t index) override {
    const Tensor& tensor = tensors_[index];
    return {tensor.data<float>(), static_cast<std::size_t>(tensor.numel())};
  }
  void reduce() override {
    if (tensors_.size() == 1) return allreduce_(tensors_.front(), options_.front());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      handles_.push_back(allreduce_async_(tensors_[i], options_[i]));
    }
    for (const CollectiveHandle& handle : handles_) handle.synchronize();
    handles_.clear();
  }

 protected:
  std::vector<Tensor> tensors_;
  std::vector<AllreduceOptions> options_;

 private:
  std::vector<CollectiveHandle> handles_;
};

// Where DistributedOptimizer has the gradients: in memory that the ranks share, if there are
// others. Under names of its own: what is now here and now there is negotiated anew each time, and
// no program does that.
class HvdArena final : public Hvd {
 public:
  explicit HvdArena(const GradientSet& sizes) : Hvd(sizes, "shared.") {
    std::vector<GradientParameter> places;
    for (const Tensor& tensor : tensors_) places.push_back({"", tensor.shape(), tensor.dtype()});
    const std::vector<Tensor> views = GradientViews(std::move(places), {}, "benchmark").take();
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (views[i].defined()) tensors_[i] = views[i];
    }
  }
};

class HvdGrouped final : public Hvd {
 public:
  using Hvd::Hvd;
  void reduce() override {
    grouped_allreduce_(tensors_, {.op = ReduceOp::kSum, .name = "gradients"});
  }
};

class Mpi : public Way {
 public:
  explicit Mpi(const GradientSet& sizes) {
    for (const std::int64_t size : sizes) tensors_.emplace_back(static_cast<std::size_t>(size));
  }
  std::span<float> tensor(std::size_t index) override { return tensors_[index]; }
  void reduce() override {
    for (std::vector<float>& tensor : tensors_) sum_in_place(tensor.data(), tensor.size());
  }

 protected:
  std::vector<std::vector<float>> tensors_;
};

// What Horovod does with a batch: copies it into its fusion buffer, reduces that, copies it back.
class PackedMpi final : public Mpi {
 public:
  explicit PackedMpi(const GradientSet& sizes)
      : Mpi(sizes), buffer_(static_cast<std::size_t>(numel(sizes))) {}
  void reduce() override {
    float* to = buffer_.data();
    for (const std::vector<float>& tensor : tensors_)
      to = std::copy(tensor.begin(), tensor.end(), to);
    sum_in_place(buffer_.data(), buffer_.size());
    const float* from = buffer_.data();
    for (std::vector<float>& tensor : tensors_) {
      std::copy_n(from, tensor.size(), tensor.data());
      from += tensor.size();
    }
  }

 private:
  std::vector<float> buffer_;
};

template <typename T>
std::unique_ptr<Way> make(const GradientSet& sizes) {
  return std::make_unique<T>(sizes);
}

constexpr WayInfo kWays[] = {
    {"hvd", "allreduce_; of several allreduce_async_ each, then synchronize", make<Hvd>},
    {"hvd grouped", "grouped_allreduce_", make<HvdGrouped>},
    {"hvd arena", "the same in communication memory", make<HvdArena>},
    {"mpi", "MPI_Allreduce in place, tensor by tensor", make<Mpi>},
    {"pack+mpi", "pack, MPI_Allreduce in place, unpack", make<PackedMpi>},
};

}  // namespace

std::span<const WayInfo> all_ways() {
  return kWays;
}

}  // namespace hvd::bench
