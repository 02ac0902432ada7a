#pragma once

#include <cstdint>

namespace hvd {

// How the tags of one communicator are divided, so that no message meets a receive that was not
// meant for it:
//
//   0 ... kReserved - 1                    what MpiTag names
//   (label * kWindow + slot) * kStages + stage
//
// `label` (1, 2, ...) stands for a Collective, `slot` for one of its operations and `stage` for a
// kind of message in it. Slots and labels return: MPI keeps the order of equal tags between two
// ranks, so it is enough that on each rank those who share a tag post their messages one after the
// other.
class MpiTags {
 public:
  static constexpr int kStages = 4;
  static constexpr int kWindow = 64;  // operations of one Collective that may run at a time
  static constexpr int kReserved = kStages * kWindow;

  // `upper_bound`: the greatest tag, MPI's attribute MPI_TAG_UB. Throws UnsupportedError if it is
  // less than the 32767 that every MPI has to offer.
  explicit MpiTags(int upper_bound);

  // Two Collectives of one label must not exist on a rank at a time.
  int label(std::uint64_t key) const {
    return 1 + static_cast<int>(key % static_cast<std::uint64_t>(labels_));
  }
  int labels() const noexcept { return labels_; }

  static int first(int label, std::uint64_t operation) {
    return label * kReserved + static_cast<int>(operation % kWindow) * kStages;
  }

 private:
  int labels_;
};

}  // namespace hvd
