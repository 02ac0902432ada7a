#pragma once

#include <string>

#include "core/base/unique_fd.h"

// How a rank lets hvdrun's agent know that its job ended because of another rank: whatever this
// process does after that, fail most likely, is a consequence, and hvdrun names the cause first.
// One byte in a memory file of the agent's, whose place is in a variable, so that it gets through
// any script between the two and needs no place in a file system. The agent reads it when the
// program has ended.
namespace hvd {

inline constexpr const char* kLossMarkVariable = "HVDRUN_LOSS_MARK";

// The agent's side.
class LossMark {
 public:
  // Throws InternalError.
  LossMark();
  // For kLossMarkVariable; good for processes of this user as long as this one runs.
  std::string place() const;
  bool is_set() const;

 private:
  std::string token_;  // at the beginning of the file
  UniqueFd file_;
};

// The rank's side. Where no agent left a place, or it cannot be reached (another user, another
// container), nothing happens. Any thread.
class LossReporter {
 public:
  // A new job: takes back what an earlier one of this program said.
  LossReporter() noexcept;
  void report() const noexcept { write('1'); }

 private:
  void write(char state) const noexcept;

  std::string place_;
};

}  // namespace hvd
