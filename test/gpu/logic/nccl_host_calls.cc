#include "test/gpu/logic/nccl_host_state.h"

// What streams do for calls.
namespace hvd::engine::test {
namespace {

std::ptrdiff_t place_in(const ncclComm& comm, const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(data);
  auto after = comm.registered.upper_bound(at);
  if (after == comm.registered.begin()) return NcclPost::kElsewhere;
  --after;
  if (at + bytes > after->first + after->second) return NcclPost::kElsewhere;
  return at - after->first;
}

void finish(NcclRequest& request) {
  ncclComm& comm = *request.comm;
  std::vector<NcclPost> posts;
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < comm.size; ++rank) {
    posts.push_back(comm.board->post_of(rank));
    inputs.push_back(comm.board->input_of(rank));
  }
  if (const auto problem = find_problem(posts)) {
    note_problem(*problem);
    fail(comm, ncclInvalidUsage, *problem);
  } else {
    compute(posts, inputs, comm.rank, request.to);
  }
  comm.board->leave(comm.rank);
  request.done = true;
}

// A collective; whether it is over.
bool meet(NcclRequest& request) {
  ncclComm& comm = *request.comm;
  if (!request.posted) {
    if (!comm.board->may_post(request.number, comm.size)) return false;
    const std::size_t in = input_bytes(request.post, comm.rank, comm.size);
    const std::size_t out = output_bytes(request.post, comm.rank, comm.size);
    request.post.places = {place_in(comm, request.from, in), place_in(comm, request.to, out)};
    if (!comm.board->post(comm.rank, request.post, request.from, in)) {
      fail(comm, ncclInternalError, "an input of " + std::to_string(in) + " bytes has no room");
      return false;
    }
    request.posted = true;
  }
  if (comm.board->all_posted(request.number, comm.size)) finish(request);
  return request.done;
}

bool transfer(NcclRequest& request) {
  ncclComm& comm = *request.comm;
  if (request.is_send()) {
    request.done = comm.board->send(comm.rank, *request.peer, request.from, request.bytes());
  } else if (const auto bytes = comm.board->find_mail(*request.peer, comm.rank)) {
    if (*bytes == request.bytes()) {
      comm.board->receive(*request.peer, comm.rank, request.to);
      request.done = true;
    } else {
      note_problem("a send of " + std::to_string(*bytes) + " bytes meets a receive of " +
                   std::to_string(request.bytes()));
      fail(comm, ncclInvalidUsage, "a send and a receive differ");
    }
  }
  return request.done;
}

}  // namespace

bool attempt(NcclRequest& request) {
  if (request.done || request.comm->aborted) return true;
  if (request.comm->error != ncclSuccess) return false;  // hangs until it is aborted
  return request.peer ? transfer(request) : meet(request);
}

}  // namespace hvd::engine::test
