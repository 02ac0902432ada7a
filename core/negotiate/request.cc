#include "core/negotiate/request.h"

#include <limits>

#include "core/base/status.h"

namespace hvd {
namespace {

constexpr unsigned kDeviceKindCount = 2;

std::string differ(const char* field, const std::string& a, Rank rank_a, const std::string& b,
                   Rank rank_b) {
  return std::string(field) + ": " + a + " on rank " + std::to_string(rank_a) + ", " + b +
         " on rank " + std::to_string(rank_b);
}

std::string text_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? "cpu" : "cuda";
}

// A peer's shape must not make numel() or bytes() throw or overflow later.
void check_extents(const Shape& shape, DType dtype) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      ByteReader::malformed("shape out of range");
    }
  }
}

}  // namespace

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllreduce:
      return "allreduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllgather:
      return "allgather";
  }
  return "unknown collective";
}

void write(ByteWriter& out, const Request& request) {
  out.put_string(request.name);
  out.put(request.kind);
  out.put(request.dtype);
  out.put(request.device);
  out.put(request.op);
  out.put(static_cast<std::int32_t>(request.root));
  out.put(static_cast<std::uint8_t>(request.automatic_name ? 1 : 0));
  out.put(static_cast<std::uint32_t>(request.shape.size()));
  for (const std::int64_t extent : request.shape) out.put(extent);
}

Request read_request(ByteReader& in) {
  Request request;
  request.name = in.get_string();
  request.kind = in.get_enum<CollectiveKind>(kCollectiveKindCount);
  request.dtype = in.get_enum<DType>(kDTypeCount);
  request.device = in.get_enum<DeviceKind>(kDeviceKindCount);
  request.op = in.get_enum<ReduceOp>(kReduceOpCount);
  request.root = in.get<std::int32_t>();
  const auto automatic = in.get<std::uint8_t>();
  if (automatic > 1) ByteReader::malformed("flag out of range");
  request.automatic_name = automatic == 1;
  request.shape.resize(in.get_count(sizeof(std::int64_t)));
  for (std::int64_t& extent : request.shape) extent = in.get<std::int64_t>();
  check_extents(request.shape, request.dtype);
  return request;
}

std::string describe_difference(const Request& a, Rank rank_a, const Request& b, Rank rank_b) {
  const auto say = [&](const char* field, const std::string& left, const std::string& right) {
    return differ(field, left, rank_a, right, rank_b);
  };
  if (a.name != b.name) return say("name", a.name, b.name);
  if (a.kind != b.kind) return say("collective", name_of(a.kind), name_of(b.kind));
  if (a.dtype != b.dtype) {
    return say("dtype", std::string(name_of(a.dtype)), std::string(name_of(b.dtype)));
  }
  if (a.shape != b.shape) {
    const bool rows = a.kind == CollectiveKind::kAllgather;
    return say(rows ? "shape after the first dimension" : "shape", to_string(a.shape),
               to_string(b.shape));
  }
  if (a.op != b.op) return say("op", std::string(name_of(a.op)), std::string(name_of(b.op)));
  if (a.root != b.root) return say("root", std::to_string(a.root), std::to_string(b.root));
  if (a.device != b.device) return say("device", text_of(a.device), text_of(b.device));
  if (a.automatic_name != b.automatic_name) {
    return say("name", a.automatic_name ? "automatic" : "given by the caller",
               b.automatic_name ? "automatic" : "given by the caller");
  }
  return "";
}

}  // namespace hvd
