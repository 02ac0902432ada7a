#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "ops/host/message_link.h"
#include "ops/mpi/messages.h"

namespace hvd::engine {

// How the tags of one communicator are divided, so that no message meets a receive that was not
// meant for it:
//
//   0 ... kReserved - 1                    what MpiTag names
//   (label * kWindow + slot) * kStages + stage
//
// `label` (1, 2, ...) stands for a set, `slot` for one of its operations and `stage` for a kind of
// message in it. Slots and labels return: MPI keeps the order of equal tags between two ranks, so
// it is enough that on each rank those who share a tag post their messages one after the other.
class MpiTags {
 public:
  static constexpr int kStages = host::kMessageStages;
  static constexpr int kWindow = 64;  // operations of one set that may run at a time
  static constexpr int kReserved = kStages * kWindow;

  // `upper_bound`: the greatest tag, MPI's attribute MPI_TAG_UB. Throws UnsupportedError if it is
  // less than the 32767 that every MPI has to offer.
  explicit MpiTags(int upper_bound);

  // Two sets of one label must not exist on a rank at a time.
  int label(std::uint64_t key) const {
    return 1 + static_cast<int>(key % static_cast<std::uint64_t>(labels_));
  }
  int labels() const noexcept { return labels_; }

  int tag(const host::MessageKey& key) const {
    return label(key.set) * kReserved + static_cast<int>(key.operation % kWindow) * kStages +
           static_cast<int>(key.stage);
  }

 private:
  int labels_;
};

// Messages by MPI_Isend and MPI_Irecv over the data communicator.
class MpiMessageLink final : public host::MessageLink {
 public:
  // Throws InvalidArgumentError if messages would be longer than MPI can count.
  explicit MpiMessageLink(std::shared_ptr<MpiCommunicator> communicator,
                          host::MessageLimits limits = {});

  Rank rank() const noexcept override { return communicator_->rank(); }
  int size() const noexcept override { return communicator_->size(); }
  const host::MessageLimits& limits() const noexcept override { return limits_; }

  std::unique_ptr<host::Messages> messages() override;
  void say(Rank to, Bytes note) override { outbox_.send(to, MpiTag::kNote, std::move(note)); }
  std::optional<Message> hear() override;
  bool flush() override { return outbox_.flush(); }

  // Throws UnsupportedError when the set would share its label.
  void open_set(std::uint64_t key) override;
  void close_set(std::uint64_t key) noexcept override { labels_.erase(tags_.label(key)); }

  void begin_work() noexcept override { communicator_->begin_work(); }
  void end_work() noexcept override { communicator_->end_work(); }
  std::optional<Duration> poll_interval(bool restless) const override {
    const bool moves = restless || communicator_->has_work();
    return moves ? communicator_->poll_interval() : communicator_->linger_interval();
  }
  bool progress(TimePoint now) override { return communicator_->linger(now); }
  void operation_failed() noexcept override { MpiEnvironment::instance().note_failure(); }

 private:
  std::shared_ptr<MpiCommunicator> communicator_;
  host::MessageLimits limits_;
  MpiTags tags_;
  std::set<int> labels_;  // of the sets that are open
  MpiOutbox outbox_;
  MpiInbox inbox_;
};

}  // namespace hvd::engine
