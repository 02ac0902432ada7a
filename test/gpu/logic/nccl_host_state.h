#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "test/gpu/logic/nccl_board.h"

// What the files of NCCL on the host share.

// A communicator of one rank. Under the mutex of NcclHost.
struct ncclComm {
  int rank = 0;
  int size = 0;
  int device = 0;
  std::string bus;
  std::shared_ptr<hvd::engine::test::NcclBoard> board;  // nothing: not there yet
  std::shared_ptr<hvd::engine::test::NcclBoard>
      parent;  // of one that was divided: its ranks are `division`
  hvd::engine::test::NcclBoard::Division division;
  bool connected = false;
  bool aborted = false;
  ncclResult_t error = ncclSuccess;
  std::string text;         // of the error
  int looks = 0;            // until what was asked for is under way
  std::uint64_t calls = 0;  // collectives
  std::vector<std::function<void()>> launches;
  std::map<const std::byte*, std::size_t> registered;
  std::vector<double> scales;              // of operations made here
  std::map<std::uint64_t, int> divisions;  // how often, by members
};

namespace hvd::engine::test {

inline constexpr int kNcclLooks = 2;  // until a call was taken

using CommPtr = std::shared_ptr<ncclComm>;

// All of this process.
struct NcclHost {
  std::mutex mutex;
  std::map<ncclComm_t, CommPtr> communicators;
  std::deque<std::shared_ptr<NcclBoard>> boards;  // that others find by an id
  std::deque<CommPtr> divided;                    // whose boards others have not found yet
  std::map<void*, std::unique_ptr<SharedBlock>> memory;
  std::vector<std::string> problems;
};

NcclHost& nccl_host();

// The rest with its mutex.
CommPtr communicator_of(ncclComm_t handle);
void note_problem(const std::string& problem);
void fail(ncclComm& comm, ncclResult_t error, const std::string& text);

// What was asked of a communicator, on its stream.
struct NcclRequest {
  CommPtr comm;
  cudaStream_t stream = nullptr;
  const void* from = nullptr;
  void* to = nullptr;
  NcclPost post = {};            // of a collective
  std::optional<int> peer = {};  // else to or from whom
  std::uint64_t number = 0;      // of collectives
  bool posted = false;
  bool done = false;

  bool is_send() const { return peer.has_value() && to == nullptr; }
  std::size_t bytes() const { return post.count * size_of(post.type); }
};

// Whether it is over; else it is to be attempted again.
bool attempt(NcclRequest& request);

// Of the current device, without a board.
CommPtr make_communicator(int rank, int size);
ncclComm_t add_communicator(CommPtr made);
// Whether all are there; or it failed.
bool connect(ncclComm& comm);
// Of the ranks that are not in `without`.
ncclResult_t divide(ncclComm& parent, const std::vector<int>& without, ncclComm_t* out);

}  // namespace hvd::engine::test
