#include "core/system/leak_until_exit.h"

#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"

namespace hvd {

void leak_until_exit(std::shared_ptr<const void> memory) {
  static Mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const MutexLock lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace hvd
