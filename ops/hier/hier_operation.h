#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/ports/collective.h"

namespace hvd {

// Ranks come to a later stage of their operations at different times, yet all of them must start
// the stages that use one collective in one order: that in which the operations were made.
class HierOrder {
 public:
  std::uint64_t join() noexcept { return joined_++; }
  // Throws AbortedError when an operation before it ended without having started the stage.
  bool is_next(std::uint64_t place) const;
  void start_next() noexcept { ++started_; }
  void break_off() noexcept { broken_ = true; }  // any thread

 private:
  std::uint64_t joined_ = 0;
  std::uint64_t started_ = 0;
  std::atomic<bool> broken_ = false;
};

using HierOrderPtr = std::shared_ptr<HierOrder>;

// An operation made of others that run one after the other.
class HierOperation final : public Operation {
 public:
  using Start = std::function<std::unique_ptr<Operation>()>;

  // `start` is called when the stages before it are finished and those of the operations before
  // this one have started; without an order, now.
  void add_stage(const HierOrderPtr& order, Start start);
  // Memory that lives as long as the operation.
  std::byte* scratch(std::size_t bytes);

  ~HierOperation() override;
  bool advance() override;
  bool withdraw() noexcept override;
  OperationStats stats() const override { return stats_; }

 private:
  struct Stage {
    HierOrderPtr order;
    std::uint64_t place = 0;
    Start start;
  };

  std::vector<Stage> stages_;
  std::size_t next_ = 0;  // stage to start
  std::vector<std::unique_ptr<std::byte[]>> scratch_;
  std::unique_ptr<Operation> running_;
  OperationStats stats_;
};

}  // namespace hvd
