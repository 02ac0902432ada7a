#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "test/gpu/logic/nccl_host_state.h"

namespace hvd::test {

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

bool connect(ncclComm& comm) {
  if (comm.board == nullptr) {
    comm.board = comm.find_board();
    if (comm.board == nullptr) return false;
    comm.board->join(comm.rank, comm.bus);
  }
  for (int rank = 0; rank < comm.size; ++rank) {
    if (!comm.board->has_joined(rank)) return false;
  }
  for (int rank = 0; rank < comm.size; ++rank) {
    for (int before = 0; before < rank; ++before) {
      if (comm.board->device_of(rank) != comm.board->device_of(before)) continue;
      fail(comm, ncclInvalidUsage,
           "Duplicate GPU detected : rank " + std::to_string(before) + " and rank " +
               std::to_string(rank) + " both on CUDA device " + comm.board->device_of(rank));
      return false;
    }
  }
  comm.connected = true;
  return true;
}

ncclResult_t divide(ncclComm& parent, const std::vector<int>& without, ncclComm_t* out) {
  if (!parent.connected || parent.looks != 0)
    note_problem("a communicator was divided during a call");
  std::uint64_t members = 0;
  for (int rank = 0; rank < parent.size; ++rank) {
    if (std::find(without.begin(), without.end(), rank) == without.end()) {
      members |= std::uint64_t{1} << rank;
    }
  }
  const int lowest = std::countr_zero(members);
  const int rank = std::popcount(members & ((std::uint64_t{1} << parent.rank) - 1));
  const int time = parent.children[members]++;
  CommPtr child = make_communicator(rank, std::popcount(members));
  if (parent.rank == lowest) {
    const auto board = NcclBoard::make();
    if (board == nullptr) return ncclSystemError;
    parent.board->show_child(lowest, {members, time, board->name()});
    child->find_board = [board] { return board; };
  } else {
    child->find_board = [board = parent.board, lowest, members, time] {
      const auto name = board->child(lowest, members, time);
      return name ? NcclBoard::open(*name) : nullptr;
    };
  }
  *out = add_communicator(std::move(child));
  parent.looks = kNcclLooks;
  return ncclInProgress;
}

}  // namespace hvd::test
