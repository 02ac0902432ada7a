#include "ops/host/host_collective.h"

#include "ops/host/host_memory.h"

namespace hvd::host {

Buffer HostCollective::allocate(std::size_t bytes) {
  return allocate_buffer(bytes);
}

void HostCollective::after(const Fence& ready) {
  all_reached(ready_);
  if (!ready.reached()) ready_.push_back(ready);
}

std::unique_ptr<Operation> HostCollective::exchange(std::span<const std::int64_t> mine,
                                                    std::span<std::int64_t> all) {
  check_exchange(mine.size(), all.size(), size_);
  const GatherSlice slice = {
      mine.data(), all.data(),
      std::vector<std::size_t>(static_cast<std::size_t>(size_), mine.size_bytes())};
  return all_gather({&slice, 1});
}

std::unique_ptr<Operation> HostCollective::send(const TensorView& tensor, Rank to, int tag) {
  check_rank("send to rank", to, size_);
  return transfer(true, tensor, to, tag);
}

std::unique_ptr<Operation> HostCollective::receive(const TensorView& tensor, Rank from, int tag) {
  check_rank("receive from rank", from, size_);
  return transfer(false, tensor, from, tag);
}

}  // namespace hvd::host
