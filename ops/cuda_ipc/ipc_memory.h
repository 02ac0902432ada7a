#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/ports/collective.h"

namespace hvd::engine {

// Of a rank; they are recorded in turn.
inline constexpr std::size_t kIpcEvents = 8;

// What another process needs to reach a segment. Bytes that may travel.
struct IpcHandles {
  cudaIpcMemHandle_t memory;
  std::array<cudaIpcEventHandle_t, kIpcEvents> events;
};

// Memory of this rank that other processes read, and events of this rank that their streams wait
// for. Other ranks close what they opened of it before it is destroyed.
class IpcSegment {
 public:
  // Throws PeerLostError with CUDA's words when that cannot be had.
  IpcSegment(int device, std::size_t bytes);
  ~IpcSegment();
  IpcSegment(const IpcSegment&) = delete;
  IpcSegment& operator=(const IpcSegment&) = delete;

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_.data); }
  const IpcHandles& handles() const noexcept { return handles_; }
  // Event number % kIpcEvents at what `stream` has enqueued so far.
  void record(std::uint64_t number, cudaStream_t stream);
  // Whether the device passed its last record, or there was none. Throws what the device failed
  // with.
  bool reached(std::uint64_t number) const;

 private:
  void export_all();
  void destroy_events() noexcept;

  const int device_;
  Buffer memory_;
  std::array<cudaEvent_t, kIpcEvents> events_ = {};
  IpcHandles handles_ = {};
};

// What this rank opened of another one's segment.
class IpcPeer {
 public:
  // `device`: the one that reads. Throws PeerLostError with CUDA's text, such as that the two
  // devices cannot reach each other.
  IpcPeer(int device, const IpcHandles& handles);
  ~IpcPeer();
  IpcPeer(const IpcPeer&) = delete;
  IpcPeer& operator=(const IpcPeer&) = delete;

  const std::byte* data() const noexcept { return static_cast<const std::byte*>(data_); }
  // What `stream` gets later runs past the last record of that event, which was before this call.
  void wait_for(std::uint64_t number, cudaStream_t stream);

 private:
  void close() noexcept;

  const int device_;
  void* data_ = nullptr;
  std::array<cudaEvent_t, kIpcEvents> events_ = {};
};

}  // namespace hvd::engine
