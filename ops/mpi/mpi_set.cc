#include "ops/mpi/mpi_set.h"

#include <algorithm>
#include <bit>
#include <string>

#include "core/base/status.h"
#include "ops/host/host_memory.h"
#include "ops/host/reduce_batch.h"

namespace hvd {
namespace {

// MPI takes back neither a send nor a receive that has met one, and messages find their receives in
// order: what is withdrawn goes on, from and to memory that has to be kept.
class MpiTransferData final : public host::TransferData {
 public:
  MpiTransferData(const std::shared_ptr<MpiCommunicator>& communicator, std::size_t message_bytes)
      : pending(communicator, message_bytes) {}
  ~MpiTransferData() override {
    if (!pending.withdraw()) MpiEnvironment::instance().note_failure();
  }
  bool done() override { return pending.test(); }
  bool arrived() const override { return pending.complete(); }
  bool withdraw(bool for_good) noexcept override {
    if (for_good) return pending.withdraw();
    try {
      return pending.test();
    } catch (const Error&) {
      return pending.withdraw();  // nothing follows on a broken link
    }
  }

  MpiPending pending;
};

// Transfers by messages of the data communicator; ranks count in it.
class MpiTransferLink final : public host::TransferLink {
 public:
  MpiTransferLink(const std::shared_ptr<MpiCommunicator>& communicator, std::size_t message_bytes)
      : communicator_(communicator),
        message_bytes_(message_bytes),
        outbox_(communicator, communicator->data()),
        inbox_(communicator, communicator->data(), MPI_ANY_SOURCE,
               static_cast<int>(MpiTag::kTransfer)) {}

  void say(Rank to, Bytes note) override { outbox_.send(to, MpiTag::kTransfer, std::move(note)); }
  std::optional<Message> hear() override {
    auto arrival = inbox_.poll();
    if (!arrival) return std::nullopt;
    communicator_->note_progress();
    return std::move(arrival->message);
  }
  void flush() override { outbox_.flush(); }
  bool said(Rank) override { return outbox_.flush(); }
  bool idle() override { return outbox_.flush(); }
  std::unique_ptr<host::TransferData> send(Rank to, const std::byte* data,
                                           std::size_t bytes) override {
    auto sending = std::make_unique<MpiTransferData>(communicator_, message_bytes_);
    sending->pending.send(to, static_cast<int>(MpiTag::kTransferData), data, bytes);
    return sending;
  }
  std::unique_ptr<host::TransferData> receive(Rank from, std::byte* data,
                                              std::size_t bytes) override {
    auto receiving = std::make_unique<MpiTransferData>(communicator_, message_bytes_);
    receiving->pending.receive(from, static_cast<int>(MpiTag::kTransferData), data, bytes);
    return receiving;
  }
  // Empty messages, which a receive() tells from its own.
  void skip(Rank to, std::size_t bytes) override {
    for (std::size_t done = 0; done < bytes; done += message_bytes_) {
      outbox_.send(to, MpiTag::kTransferData, {});
    }
  }

 private:
  std::shared_ptr<MpiCommunicator> communicator_;
  std::size_t message_bytes_;
  MpiOutbox outbox_;
  MpiInbox inbox_;
};

int greatest_tag(const MpiCommunicator& communicator) {
  int* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(communicator.data(), MPI_TAG_UB, static_cast<void*>(&value), &found),
            "MPI_Comm_get_attr");
  return found != 0 ? *value : 0;
}

}  // namespace

MpiShared::MpiShared(std::shared_ptr<MpiCommunicator> mpi, MpiCollectiveLimits the_limits)
    : communicator(std::move(mpi)),
      limits(the_limits),
      tags(greatest_tag(*communicator)),
      transfers(std::make_unique<MpiTransferLink>(communicator, the_limits.message_bytes)) {
  if (limits.piece_bytes < host::ReduceBatch::kLongestUnit || limits.message_bytes == 0 ||
      limits.message_bytes > INT_MAX) {
    throw InvalidArgumentError(
        "pieces of " + std::to_string(limits.piece_bytes) + " bytes in messages of " +
        std::to_string(limits.message_bytes) + " bytes: expected pieces of at least " +
        std::to_string(host::ReduceBatch::kLongestUnit) + ", and messages of 1 to INT_MAX");
  }
}

MpiSet::MpiSet(std::shared_ptr<MpiShared> shared)
    : RankSet(shared->communicator->rank(), shared->communicator->size()),
      shared_(std::move(shared)),
      label_(shared_->tags.label(key())) {
  take_label();
}

MpiSet::MpiSet(const std::shared_ptr<const MpiSet>& parent, std::uint32_t number,
               std::vector<Rank> ranks)
    : RankSet(parent, number, parent->shared_->communicator->rank(), std::move(ranks)),
      shared_(parent->shared_),
      label_(shared_->tags.label(key())) {
  take_label();
}

void MpiSet::take_label() {
  if (shared_->labels.insert(label_).second) return;
  throw UnsupportedError(
      "a process set would share its MPI tags with one that still exists (tags up to MPI_TAG_UB "
      "tell " +
      std::to_string(shared_->tags.labels()) + " sets apart): remove older sets");
}

std::uint64_t MpiSet::begin_operation() {
  running_.push_back(next_operation_);
  return next_operation_++;
}

namespace {

constexpr std::size_t kLeast = 4096;                   // bytes of a buffer
constexpr std::size_t kKept = std::size_t{256} << 20;  // bytes that wait for the next operation

}  // namespace

Buffer ScratchPool::take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kLeast));
  const auto fits = [&](const Buffer& each) { return each.bytes == rounded; };
  const auto found = std::find_if(free_.rbegin(), free_.rend(), fits);  // the warmest first
  if (found == free_.rend()) return host::allocate_buffer(rounded);
  Buffer buffer = std::move(*found);
  free_.erase(std::prev(found.base()));
  free_bytes_ -= rounded;
  return buffer;
}

void ScratchPool::give_back(Buffer buffer) {
  if (free_bytes_ + buffer.bytes > kKept) return;
  free_bytes_ += buffer.bytes;
  free_.push_back(std::move(buffer));
}

namespace {

constexpr int kGuaranteed = 32767;  // MPI 4.0, section 9.1.2

}  // namespace

MpiTags::MpiTags(int upper_bound) : labels_(upper_bound / kReserved - 1) {
  if (upper_bound >= kGuaranteed) return;
  throw UnsupportedError("this MPI has tags up to " + std::to_string(upper_bound) +
                         " (MPI_TAG_UB); at least " + std::to_string(kGuaranteed) +
                         " are expected");
}

}  // namespace hvd
