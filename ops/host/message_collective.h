#pragma once

#include <memory>
#include <utility>

#include "ops/host/host_collective.h"
#include "ops/host/message_operation.h"
#include "ops/host/message_set.h"

namespace hvd::engine::host {

// Collectives on host memory by messages between two ranks, which move bytes only: all arithmetic
// is done here, so every dtype and op works and a result does not depend on how batches were fused.
//
// All-reduce: Rabenseifner's reduce-scatter and all-gather (Thakur, Rabenseifner, Gropp 2005), with
// a direct exchange of ranges in place of recursive halving: each element is reduced by one rank,
// in rank order, and is therefore bitwise equal everywhere. Two ranks exchange all they have, and
// so do more where that is little: each reduces it in the same order.
class MessageCollective final
    : public SetCollective<MessageCollective, MessageSet, MessageAllReduce, MessageReduceScatter,
                           MessageBroadcast, MessageExchange> {
 public:
  explicit MessageCollective(std::shared_ptr<MessageSet> set) : SetCollective(std::move(set)) {}
  // Among all ranks of the link; subsets share it. Throws InvalidArgumentError if the link's limits
  // cannot be kept.
  explicit MessageCollective(std::shared_ptr<MessageLink> link)
      : MessageCollective(
            std::make_shared<MessageSet>(std::make_shared<MessageShared>(std::move(link)))) {}

  std::optional<Duration> poll_interval() const override {
    return link().poll_interval(set_->shared().transfers.restless());
  }
  std::optional<Duration> prepare_sleep() override {
    return link().prepare_sleep(set_->shared().transfers.restless());
  }
  void progress(TimePoint now) override {
    Transfers& transfers = set_->shared().transfers;
    const bool looked = link().progress(now);
    if (transfers.restless() || (looked && transfers.unsettled())) transfers.poll();
  }
  void abort() noexcept override {
    set_->abort();
    link().operation_failed();
  }

 private:
  MessageLink& link() const noexcept { return *set_->shared().link; }
};

}  // namespace hvd::engine::host
