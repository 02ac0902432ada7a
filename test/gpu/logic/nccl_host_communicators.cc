#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "test/gpu/logic/nccl_host_state.h"

namespace hvd::engine::test {

NcclHost& nccl_host() {
  static auto* const all = new NcclHost;
  return *all;
}

CommPtr communicator_of(ncclComm_t handle) {
  return nccl_host().communicators.at(handle);
}

void note_problem(const std::string& problem) {
  std::fprintf(stderr, "NCCL on host: %s\n", problem.c_str());
  nccl_host().problems.push_back(problem);
}

void fail(ncclComm& comm, ncclResult_t error, const std::string& text) {
  comm.error = error;
  comm.text = text;
}

CommPtr make_communicator(int rank, int size) {
  auto made = std::make_shared<ncclComm>();
  char bus[32] = {};
  cudaGetDevice(&made->device);
  cudaDeviceGetPCIBusId(bus, sizeof bus, made->device);
  made->bus = bus;
  made->rank = rank;
  made->size = size;
  made->looks = kNcclLooks;
  return made;
}

ncclComm_t add_communicator(CommPtr made) {
  ncclComm_t const handle = made.get();
  nccl_host().communicators[handle] = std::move(made);
  return handle;
}

namespace {

// Whether a rank shares its GPU with another one.
bool is_refused(ncclComm& comm) {
  for (int rank = 0; rank < comm.size; ++rank) {
    for (int before = 0; before < rank; ++before) {
      if (comm.board->device_of(rank) != comm.board->device_of(before)) continue;
      fail(comm, ncclInvalidUsage,
           "Duplicate GPU detected : rank " + std::to_string(before) + " and rank " +
               std::to_string(rank) + " both on CUDA device " + comm.board->device_of(rank));
      return true;
    }
  }
  return false;
}

bool all_joined(const ncclComm& comm) {
  if (comm.board == nullptr) return false;
  for (int rank = 0; rank < comm.size; ++rank) {
    if (!comm.board->has_joined(rank)) return false;
  }
  return true;
}

// Whether all take part, whether or not they have found the board.
bool all_divided(const ncclComm& comm) {
  for (int rank = 0; rank < NcclBoard::kMostRanks; ++rank) {
    const bool is_member = (comm.division.members >> rank & 1) != 0;
    if (is_member && !comm.parent->part_of(rank, comm.division)) return false;
  }
  return true;
}

void find_board(ncclComm& comm) {
  const auto name = comm.parent->part_of(comm.division.lowest(), comm.division);
  if (name) comm.board = NcclBoard::open(*name);
  if (comm.board != nullptr) comm.board->join(comm.rank, comm.bus);
}

}  // namespace

bool connect(ncclComm& comm) {
  if (comm.board == nullptr) find_board(comm);
  if (comm.board == nullptr) return false;
  comm.connected = comm.parent != nullptr ? all_divided(comm) : all_joined(comm);
  if (comm.parent == nullptr && comm.connected && is_refused(comm)) comm.connected = false;
  return comm.connected;
}

ncclResult_t divide(ncclComm& parent, const std::vector<int>& without, ncclComm_t* out) {
  if (!parent.connected || parent.looks != 0) {
    note_problem("a communicator was divided during a call");
  }
  NcclBoard::Division division;
  for (int rank = 0; rank < parent.size; ++rank) {
    if (std::find(without.begin(), without.end(), rank) == without.end()) {
      division.members |= std::uint64_t{1} << rank;
    }
  }
  division.time = parent.divisions[division.members]++;
  const std::uint64_t before = (std::uint64_t{1} << parent.rank) - 1;
  const CommPtr child =
      make_communicator(std::popcount(division.members & before), std::popcount(division.members));
  child->parent = parent.board;
  child->division = division;
  if (parent.rank == division.lowest()) {
    child->board = NcclBoard::make();
    if (child->board == nullptr) return ncclSystemError;
    child->board->join(child->rank, child->bus);
    std::erase_if(nccl_host().divided, [](const CommPtr& each) { return all_joined(*each); });
    nccl_host().divided.push_back(child);
  }
  parent.board->divide(parent.rank, division,
                       child->board != nullptr ? child->board->name() : BlockName{});
  *out = add_communicator(child);
  parent.looks = kNcclLooks;
  return ncclInProgress;
}

}  // namespace hvd::engine::test
