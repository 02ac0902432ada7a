#include "core/negotiate/messages/request.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/status.h"
#include "core/base/tensor_view.h"

namespace hvd::engine {
namespace {

constexpr std::string_view kAnd = " and ", kMore = " more", kNoName = "noname";

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Where " (optimizer 2)" begins: see unique_suffix(). Else the name's end.
std::size_t end_of_unique(std::string_view name) {
  const std::size_t open = name.rfind(" (");
  const std::size_t space = name.rfind(' ');
  if (open == std::string_view::npos || open == 0 || space <= open || !name.ends_with(')')) {
    return name.size();
  }
  return is_number(name.substr(space + 1, name.size() - space - 2)) ? open : name.size();
}

// Where " and 7 more" begins, or the name's end. The tensors of one dtype of a mixed group have
// that behind it.
std::size_t end_of_first(std::string_view name) {
  const std::size_t more = name.rfind(kMore);
  if (more == std::string_view::npos) return name.size();
  const std::string_view behind = name.substr(more + kMore.size());
  if (!behind.empty() && !behind.starts_with('.')) return name.size();
  const std::size_t joint = name.rfind(kAnd, more);
  if (joint == std::string_view::npos || joint == 0) return name.size();
  const std::size_t number = joint + kAnd.size();
  return more > number && is_number(name.substr(number, more - number)) ? joint : name.size();
}

// "set2." at the front is taken off; what it says, "" for the world.
std::string_view take_set(std::string_view& name) {
  if (!name.starts_with("set")) return "";
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || !is_number(name.substr(3, dot - 3))) return "";
  const std::string_view set = name.substr(3, dot - 3);
  name.remove_prefix(dot + 1);
  return set;
}

// What users see of a call without a name, or without one yet: "noname.7", "noname". Else "".
std::string unnamed_call(std::string_view name) {
  if (name == kNoName) return "an unnamed call";
  if (!name.starts_with(kNoName) || name[kNoName.size()] != '.') return "";
  const std::string_view number = name.substr(kNoName.size() + 1);
  return is_number(number) ? "unnamed call " + std::string(number) : "";
}

// "allreduce." at the front is taken off; "" if there is no kind.
std::string_view take_kind(std::string_view& name) {
  for (int kind = 0; kind < kCollectiveKindCount; ++kind) {
    const std::string_view text = name_of(static_cast<CollectiveKind>(kind));
    if (name.size() < text.size() + 2 || !name.starts_with(text) || name[text.size()] != '.') {
      continue;
    }
    name.remove_prefix(text.size() + 1);
    return text;
  }
  return "";
}

}  // namespace

std::string group_name(const std::string& first, std::size_t count) {
  return count < 2 ? first
                   : first + std::string(kAnd) + std::to_string(count - 1) + std::string(kMore);
}

std::string unique_suffix(const std::string& kind, std::uint64_t number) {
  return number < 2 ? "" : " (" + kind + " " + std::to_string(number) + ")";
}

std::string quoted_name(std::string_view name) {
  const std::size_t end = end_of_first(name.substr(0, end_of_unique(name)));
  return "'" + std::string(name.substr(0, end)) + "'" + std::string(name.substr(end));
}

std::string readable_name(std::string_view name) {
  const std::string_view set = take_set(name);
  const std::string_view kind = take_kind(name);
  std::string text = kind.empty() ? "" : unnamed_call(name);
  if (text.empty()) text = quoted_name(name);
  if (kind.empty() && set.empty()) return text;
  text.append(" (").append(kind);
  if (!set.empty()) text.append(kind.empty() ? "process set " : " of process set ").append(set);
  return text + ")";
}

namespace {

constexpr int kDeviceKindCount = 2;

std::string text_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? "cpu" : "cuda";
}

std::string text_of(double scale) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", scale);
  return text;
}

std::string text_of(const std::vector<std::int32_t>& numbers) {
  return to_string(Shape(numbers.begin(), numbers.end()));
}

// "float32", "float32.cuda": of what number_of() made.
std::string kind_of(std::int32_t number) {
  std::string kind(name_of(static_cast<DType>(number / kDeviceKindCount)));
  if (static_cast<DeviceKind>(number % kDeviceKindCount) == DeviceKind::kCuda) kind += ".cuda";
  return kind;
}

// "float32, int64": of all requests of a call whose first one this is.
std::string kinds_of(const Request& request) {
  std::string kinds = kind_of(number_of(request.dtype, request.device));
  for (const std::int32_t number : request.numbers) kinds += ", " + kind_of(number);
  return kinds;
}

// A peer's shapes must not make numel_of(), bytes_of() or their sum throw or overflow later.
void check_extents(const Shapes& shapes, DType dtype) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
  std::int64_t room = kMostBytes;
  for (const Shape& shape : shapes) {
    const auto bytes = checked_bytes(shape, dtype);
    if (!bytes || *bytes > room) ByteReader::malformed("shape out of range");
    room -= *bytes;
  }
}

// One offset per tensor or, when packed, none.
template <typename Io>
void serialize_place(Io& io, Fields<Io, Request>& request) {
  auto& place = request.place;
  io.number(place.arena);
  if constexpr (Io::kReads) {
    if (place.arena == 0) return;
    if (request.kind != CollectiveKind::kAllreduce) ByteReader::malformed("place of no allreduce");
    place.offsets.resize(request.shapes.size());
  }
  for (auto& offset : place.offsets) io.number(offset);
}

// What would make a request differ from itself, or arithmetic with it fail later.
void check_values(const Request& request) {
  if (request.kind == CollectiveKind::kJoin) ByteReader::malformed("a join is not a request here");
  if (!std::isfinite(request.prescale) || !std::isfinite(request.postscale)) {
    ByteReader::malformed("scale out of range");
  }
  check_extents(request.shapes, request.dtype);
  if (changes_sets(request.kind)) return;
  for (const std::int32_t number : request.numbers) {
    if (number < 0 || number >= kDTypeCount * kDeviceKindCount) ByteReader::malformed("no dtype");
  }
}

// Says one difference; the ranks are the same in all of them.
class Difference {
 public:
  Difference(Rank a, Rank b) : a_(a), b_(b) {}

  std::string operator()(const std::string& field, std::string_view a, std::string_view b) const {
    return field + ": " + std::string(a) + " on rank " + std::to_string(a_) + ", " +
           std::string(b) + " on rank " + std::to_string(b_);
  }

 private:
  Rank a_;
  Rank b_;
};

std::string describe_shapes(const Request& a, const Request& b, const Difference& say) {
  if (a.kind == CollectiveKind::kMakeArena) {
    return say("bytes", to_string(a.shapes.front()), to_string(b.shapes.front()));
  }
  if (a.shapes.size() != b.shapes.size()) {
    return say("number of tensors in the group", std::to_string(a.shapes.size()),
               std::to_string(b.shapes.size()));
  }
  std::size_t at = 0;
  while (a.shapes[at] == b.shapes[at]) ++at;
  std::string field = sizes_differ(a.kind) ? "shape after the first dimension" : "shape";
  if (a.shapes.size() > 1) {
    field +=
        " of tensor " + std::to_string(at) + " of the group of " + std::to_string(a.shapes.size());
  }
  return say(field, to_string(a.shapes[at]), to_string(b.shapes[at]));
}

}  // namespace

template <typename Io>
void serialize(Io& io, Fields<Io, Request>& request) {
  io.text(request.name);
  io.choice(request.kind, kCollectiveKindCount);
  io.choice(request.dtype, kDTypeCount);
  io.choice(request.device, kDeviceKindCount);
  io.number(request.set);
  io.choice(request.op, kReduceOpCount);
  io.number(request.root);
  io.number(request.prescale);
  io.number(request.postscale);
  io.choice(request.wire, kWireFormatCount);
  io.flag(request.automatic_name);
  io.list(request.shapes, sizeof(std::uint32_t), [&](auto& shape) { io.numbers(shape); });
  io.numbers(request.numbers);
  if constexpr (Io::kReads) check_values(request);
  serialize_place(io, request);
  io.flag(request.flagged);
  io.text(request.not_finite);
}

template void serialize(ByteWriter& io, const Request& request);
template void serialize(ByteReader& io, Request& request);

// Names every member: a new one does not compile until it is compared here.
bool agree(const Request& a, const Request& b) {
  const auto& [name, kind, dtype, device, set, op, root, prescale, postscale, wire, shapes, numbers,
               automatic_name, joins_average, place, flagged, not_finite] = a;
  return name == b.name && kind == b.kind && dtype == b.dtype && device == b.device &&
         set == b.set && op == b.op && root == b.root && prescale == b.prescale &&
         postscale == b.postscale && wire == b.wire && shapes == b.shapes && numbers == b.numbers &&
         automatic_name == b.automatic_name && joins_average == b.joins_average &&
         not_finite == b.not_finite;
}

void merge(Request& into, const Request& other) {
  if (into.place != other.place) into.place = {};
  into.flagged = into.flagged || other.flagged;
}

// A request whose bytes are encoded, or tensors treated one by one, needs memory of its own.
ArenaNumber arena_of(const Request& request) {
  const bool in_place = request.kind == CollectiveKind::kAllreduce &&
                        request.wire == WireFormat::kNone && request.op != ReduceOp::kAdasum;
  return in_place ? request.place.arena : 0;
}

std::size_t eager_bytes(const Request& request) {
  if (request.kind != CollectiveKind::kAllreduce || request.device != DeviceKind::kCpu ||
      request.wire != WireFormat::kNone || request.op == ReduceOp::kAdasum || request.flagged) {
    return 0;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < request.shapes.size(); ++i) bytes += request.bytes_of(i);
  return bytes;
}

std::int32_t number_of(DType dtype, DeviceKind device) {
  return static_cast<int>(dtype) * kDeviceKindCount + static_cast<int>(device);
}

std::string name_of_other(const std::string& first, std::int32_t number) {
  return first + "." + kind_of(number);
}

std::string describe_difference(const Request& a, Rank rank_a, const Request& b, Rank rank_b) {
  const Difference say(rank_a, rank_b);
  if (a.name != b.name) return say("name", a.name, b.name);
  if (a.set != b.set) return say("process set", std::to_string(a.set), std::to_string(b.set));
  if (a.kind != b.kind) return say("collective", name_of(a.kind), name_of(b.kind));
  if (a.dtype != b.dtype) return say("dtype", name_of(a.dtype), name_of(b.dtype));
  if (a.numbers != b.numbers && !changes_sets(a.kind)) {
    return say("dtypes", kinds_of(a), kinds_of(b));
  }
  if (a.shapes != b.shapes) return describe_shapes(a, b, say);
  if (a.op != b.op) return say("op", name_of(a.op), name_of(b.op));
  if (a.root != b.root) return say("root", std::to_string(a.root), std::to_string(b.root));
  if (a.prescale != b.prescale) {
    return say("prescale factor", text_of(a.prescale), text_of(b.prescale));
  }
  if (a.postscale != b.postscale) {
    return say("postscale factor", text_of(a.postscale), text_of(b.postscale));
  }
  if (a.wire != b.wire) return say("wire format", name_of(a.wire), name_of(b.wire));
  if (a.device != b.device) return say("device", text_of(a.device), text_of(b.device));
  if (a.numbers != b.numbers) {
    const bool ranks = a.kind == CollectiveKind::kAddSet;
    return say(ranks ? "ranks" : "process set to remove", text_of(a.numbers), text_of(b.numbers));
  }
  if (a.automatic_name != b.automatic_name) {
    return say("name", a.automatic_name ? "automatic" : "given by the caller",
               b.automatic_name ? "automatic" : "given by the caller");
  }
  return "";
}

}  // namespace hvd::engine
