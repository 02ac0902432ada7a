// Which gradients are reduced together.
#include <algorithm>
#include <map>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/dist/gradient_reducer.h"
#include "horovod_cpp/dist/world.h"

namespace hvd {

GradientReducer::EntryGroups GradientReducer::divide_entries() const {
  std::vector<Entry*> all;
  for (const auto& entry : entries_) {
    if (!entry->by_rows) all.push_back(entry.get());
  }
  EntryGroups groups = !options_.groups.empty()  ? given_groups(all)
                       : options_.num_groups > 0 ? equal_groups(all)
                                                 : groups_by_size(all);
  for (const auto& entry : entries_) {
    if (entry->by_rows) groups.push_back({entry.get()});
  }
  return groups;
}

// In parameter order, each of at most so many bytes, or of one parameter.
GradientReducer::EntryGroups GradientReducer::groups_by_size(const std::vector<Entry*>& all) const {
  const std::size_t bytes = options_.process_set.world()->options().bucket_bytes;
  EntryGroups groups;
  std::size_t filled = 0;
  for (Entry* entry : all) {
    const auto size =
        static_cast<std::size_t>(entry->param.numel()) * size_of(entry->param.dtype());
    if (groups.empty() || filled + size > bytes) {
      groups.emplace_back();
      filled = 0;
    }
    groups.back().push_back(entry);
    filled += size;
  }
  return groups;
}

GradientReducer::EntryGroups GradientReducer::given_groups(const std::vector<Entry*>& all) const {
  std::map<const void*, Entry*> left;
  for (const auto& entry : entries_) left.emplace(entry->param.id(), entry.get());
  EntryGroups groups;
  for (std::size_t g = 0; g < options_.groups.size(); ++g) {
    std::vector<Entry*> group;
    for (const Tensor& param : options_.groups[g]) {
      const auto found = left.find(param.id());
      if (found == left.end()) {
        throw InvalidArgumentError(
            "DistributedOptimizer: groups[" + std::to_string(g) + "] has a tensor of shape " +
            to_string(param.shape()) +
            " that is in another group already, or is no parameter of the optimizer with a "
            "gradient");
      }
      if (!found->second->by_rows) group.push_back(found->second);
      left.erase(found);
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  for (Entry* entry : all) {
    if (left.contains(entry->param.id())) groups.push_back({entry});
  }
  return groups;
}

GradientReducer::EntryGroups GradientReducer::equal_groups(const std::vector<Entry*>& all) const {
  const std::size_t count = std::min(static_cast<std::size_t>(options_.num_groups), all.size());
  EntryGroups groups(count);
  for (std::size_t i = 0; i < all.size(); ++i) groups[i * count / all.size()].push_back(all[i]);
  return groups;
}

}  // namespace hvd
