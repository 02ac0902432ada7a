#include "ops/mpi/mpi_link.h"

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

constexpr int kGuaranteed = 32767;  // the least MPI_TAG_UB: MPI 4.0, section 9.1.2
constexpr std::size_t kUsual = 4;   // messages of one owner: one allocation

// MPI takes back neither a send nor a receive that has met one.
class MpiMessages final : public host::Messages {
 public:
  MpiMessages(MpiCommunicator& communicator, const MpiTags& tags)
      : communicator_(communicator), tags_(tags) {
    posted_.reserve(kUsual);
  }
  ~MpiMessages() override {
    if (!withdraw()) MpiEnvironment::instance().note_failure();
  }

  void send(Rank to, const host::MessageKey& key, std::span<const std::byte> data) override {
    Posted& added = add(data.size(), false);
    check_mpi(MPI_Isend(data.data(), added.bytes, MPI_BYTE, to, tags_.tag(key),
                        communicator_.data(), &added.request),
              "MPI_Isend");
  }
  void receive(Rank from, const host::MessageKey& key, std::span<std::byte> data) override {
    Posted& added = add(data.size(), true);
    check_mpi(MPI_Irecv(data.data(), added.bytes, MPI_BYTE, from, tags_.tag(key),
                        communicator_.data(), &added.request),
              "MPI_Irecv");
  }
  bool arrived() override;
  bool complete() const noexcept override { return complete_; }
  bool withdraw() noexcept override;

 private:
  struct Posted {
    int bytes;
    bool receives;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Posted& add(std::size_t bytes, bool receives) {
    return posted_.emplace_back(Posted{static_cast<int>(bytes), receives});
  }

  MpiCommunicator& communicator_;
  const MpiTags& tags_;
  std::vector<Posted> posted_;
  bool complete_ = true;
};

bool MpiMessages::arrived() {
  while (!posted_.empty()) {
    Posted& last = posted_.back();
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&last.request, &done, &status), "MPI_Test");
    if (done == 0) return false;
    int count = last.bytes;
    if (last.receives) check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    if (count != last.bytes) complete_ = false;
    posted_.pop_back();
    communicator_.note_progress();
  }
  return true;
}

bool MpiMessages::withdraw() noexcept {
  if (posted_.empty()) return true;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return true;  // nothing moves any more
  std::erase_if(posted_, [](Posted& each) {
    int done = 0;
    if (each.receives && each.request != MPI_REQUEST_NULL) MPI_Cancel(&each.request);
    return MPI_Test(&each.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  });
  return posted_.empty();
}

int greatest_tag(const MpiCommunicator& communicator) {
  int* value = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(communicator.data(), MPI_TAG_UB, static_cast<void*>(&value), &found),
            "MPI_Comm_get_attr");
  return found != 0 ? *value : 0;
}

}  // namespace

MpiTags::MpiTags(int upper_bound) : labels_(upper_bound / kReserved - 1) {
  if (upper_bound >= kGuaranteed) return;
  throw UnsupportedError("this MPI has tags up to ", upper_bound, " (MPI_TAG_UB); at least ",
                         kGuaranteed, " are expected");
}

MpiMessageLink::MpiMessageLink(std::shared_ptr<MpiCommunicator> communicator,
                               host::MessageLimits limits)
    : communicator_(std::move(communicator)),
      limits_(limits),
      tags_(greatest_tag(*communicator_)),
      outbox_(communicator_, communicator_->data()),
      inbox_(communicator_, communicator_->data(), MPI_ANY_SOURCE,
             static_cast<int>(MpiTag::kNote)) {
  limits_.operations = MpiTags::kWindow;
  const std::size_t longest = std::max(limits.piece_bytes, limits.small_bytes);
  if (longest <= INT_MAX) return;
  throw InvalidArgumentError("messages of up to ", longest, " bytes: MPI counts up to ", INT_MAX);
}

std::unique_ptr<host::Messages> MpiMessageLink::messages() {
  return std::make_unique<MpiMessages>(*communicator_, tags_);
}

std::optional<Message> MpiMessageLink::hear() {
  auto arrival = inbox_.poll();
  if (!arrival) return std::nullopt;
  communicator_->note_progress();
  return std::move(arrival->message);
}

void MpiMessageLink::open_set(std::uint64_t key) {
  if (labels_.insert(tags_.label(key)).second) return;
  throw UnsupportedError(
      "a process set would share its MPI tags with one that still exists (tags up to MPI_TAG_UB "
      "tell ",
      tags_.labels(), " sets apart): remove older sets");
}

}  // namespace hvd::engine
