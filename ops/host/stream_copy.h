#pragma once

#include <cstddef>

namespace hvd::host {

// Copies to memory that other cores have read and will read next. Where it pays, past the caches: a
// line that is written through them has to be taken back from every core that has it, one after the
// other. Who tells the others does so past end_stream().
void stream_copy(void* to, const void* from, std::size_t bytes) noexcept;

// What this thread streamed before is visible to whoever sees what it writes after.
void end_stream() noexcept;

}  // namespace hvd::host
