#include "core/runtime/wake/submission_group.h"

namespace hvd::engine {

thread_local int SubmissionGroup::open_ = 0;

}  // namespace hvd::engine
