#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/runtime/batch.h"
#include "core/runtime/observer.h"

namespace hvd {

// All observers of one Runtime. With none of them no event costs more than a branch.
class Observers {
 public:
  explicit Observers(std::vector<std::unique_ptr<Observer>> all) : all_(std::move(all)) {}

  void submitted(std::string_view name) {
    for (const auto& observer : all_) observer->submitted(name);
  }
  void negotiated(const Batch& batch) { tell(&Observer::negotiated, batch); }
  void started(const Batch& batch) { tell(&Observer::started, batch); }
  void finished(const Batch& batch) { tell(&Observer::finished, batch); }
  void failed(std::string_view name, const Status& why) {
    for (const auto& observer : all_) observer->failed(name, why);
  }

 private:
  void tell(void (Observer::*event)(const BatchInfo&), const Batch& batch) {
    if (all_.empty()) return;
    const BatchInfo info = batch.info();
    for (const auto& observer : all_) ((*observer).*event)(info);
  }

  std::vector<std::unique_ptr<Observer>> all_;
};

}  // namespace hvd
