#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cifar {

// One step of a training; losses are averages over the ranks.
struct HistoryRow {
  int epoch = 0;
  std::int64_t step = 0;  // from 1, over all epochs
  double lr = 0;
  double loss = 0;
  double test_accuracy = -1;  // after an epoch's last step; -1 elsewhere
};

// A table with a line a step (".csv"), or an array of objects (".json"). Throws
// InvalidArgumentError naming the path when it cannot be written or ends otherwise.
void write_history(const std::string& path, const std::vector<HistoryRow>& rows);

// Throws the same for a path that write_history() would refuse by its ending.
void check_history_path(const std::string& path);

}  // namespace cifar
