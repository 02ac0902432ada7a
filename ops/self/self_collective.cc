#include "ops/self/self_collective.h"

#include <cstring>
#include <string>

#include "core/base/status.h"
#include "ops/host/host_buffer.h"
#include "ops/host/reduce.h"

namespace hvd {
namespace {

class SelfOperation final : public Operation {
 public:
  SelfOperation(std::function<void()> work, std::vector<Fence> ready,
                std::shared_ptr<const std::atomic<bool>> aborted)
      : work_(std::move(work)), ready_(std::move(ready)), aborted_(std::move(aborted)) {}

  bool advance() override {
    if (work_ == nullptr) return true;
    if (*aborted_) throw AbortedError("the collectives of this world of one rank were aborted");
    std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
    if (!ready_.empty()) return false;
    work_();
    work_ = nullptr;
    return true;
  }

 private:
  std::function<void()> work_;  // empty once done
  std::vector<Fence> ready_;
  std::shared_ptr<const std::atomic<bool>> aborted_;
};

void copy(const void* from, void* to, std::size_t bytes) {
  if (from != to && bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

Buffer SelfCollective::allocate(std::size_t bytes) {
  return host::allocate_buffer(bytes);
}

void SelfCollective::after(const Fence& ready) {
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (!ready.reached()) ready_.push_back(ready);
}

std::unique_ptr<Operation> SelfCollective::start(std::function<void()> work) {
  return std::make_unique<SelfOperation>(std::move(work), ready_, aborted_);
}

std::unique_ptr<Operation> SelfCollective::all_reduce(std::span<const Slice> slices, ReduceOp op,
                                                      double scale) {
  return start([mine = std::vector(slices.begin(), slices.end()), op, scale] {
    for (const Slice& slice : mine) {
      const void* const input = slice.input.data;
      host::reduce(slice.input.dtype, op, {&input, 1}, slice.output.data, slice.input.numel, scale);
    }
  });
}

std::unique_ptr<Operation> SelfCollective::broadcast(std::span<const Slice> slices, Rank root) {
  if (root != 0) {
    throw InvalidArgumentError("broadcast from root " + std::to_string(root) +
                               " in a world of one rank");
  }
  return start([mine = std::vector(slices.begin(), slices.end())] {
    for (const Slice& slice : mine) copy(slice.input.data, slice.output.data, slice.input.bytes());
  });
}

std::unique_ptr<Operation> SelfCollective::all_gather(std::span<const GatherSlice> slices) {
  return start([mine = std::vector(slices.begin(), slices.end())] {
    for (const GatherSlice& slice : mine) copy(slice.input, slice.output, slice.bytes_of.at(0));
  });
}

std::unique_ptr<Operation> SelfCollective::exchange(std::span<const std::int64_t> mine,
                                                    std::span<std::int64_t> all) {
  return start([mine, all] { copy(mine.data(), all.data(), mine.size_bytes()); });
}

}  // namespace hvd
