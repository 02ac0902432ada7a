#include "test/fuzz/session.h"

#include <cstdlib>
#include <string>
#include <variant>

#include "core/base/topology.h"
#include "core/negotiate/messages/message.h"

namespace hvd::engine::test {
namespace {

// Rank 0, rank 1 below it, ranks 2 and 3 below rank 1.
constexpr int kHosts[] = {0, 1, 1, 1};

// Something must not be: the fuzzer keeps the input.
void expect(bool fact) {
  if (!fact) std::abort();
}

Request request_of(std::uint8_t choice) {
  Request request;
  const unsigned kind = choice % 11;  // not kJoin
  request.name = std::string(1, "abcd"[choice / 11 % 4]);
  request.kind = static_cast<CollectiveKind>(kind);
  request.shapes = {{choice / 44 % 3 + 1}};
  if (choice >= 132) request.shapes.push_back({2});
  request.automatic_name = choice % 5 == 0;
  request.flagged = request.kind == CollectiveKind::kAllreduce && choice % 3 == 0;
  if (request.kind == CollectiveKind::kAddSet) request.numbers = {1, 3};
  if (request.kind == CollectiveKind::kRemoveSet) request.numbers = {1};
  if (choice >= 200 && !changes_sets(request.kind)) {
    request.set = 1;
    request.root = 1;
    request.name += "@1";
  }
  return request;
}

NegotiationSettings settings() {
  NegotiationSettings settings;
  settings.cache_capacity = 2;
  settings.batches_in_flight = 2;
  settings.stall_warning = std::chrono::seconds(8);
  settings.stall_limit = std::chrono::seconds(100);
  return settings;
}

// Reads all of what came. Not everything can be reduced here.
bool sum_here(std::span<const Rank> ranks, std::span<const void* const> inputs, DType dtype,
              std::int64_t numel, const Reduction& reduction, void* result) {
  expect(inputs.size() == ranks.size() && numel > 0);
  const std::size_t bytes = static_cast<std::size_t>(numel) * size_of(dtype);
  auto* const sum = static_cast<unsigned char*>(result);
  for (const void* input : inputs) {
    for (std::size_t i = 0; i < bytes; ++i) {
      sum[i] = static_cast<unsigned char>(sum[i] + static_cast<const unsigned char*>(input)[i]);
    }
  }
  return reduction.op == ReduceOp::kSum;
}

}  // namespace

Bytes begin_session(Rank rank) {
  return {static_cast<std::byte>(rank)};
}

void append(Bytes& session, const SessionEvent& event) {
  ByteWriter out(session);
  out.put(event.kind);
  out.put(event.choice);
  if (event.kind != EventKind::kReceive) return;
  out.put(static_cast<std::uint16_t>(event.message.size()));
  session.insert(session.end(), event.message.begin(), event.message.end());
}

std::optional<SessionEvent> next_event(std::span<const std::byte>& session) {
  if (session.size() < 2) return std::nullopt;
  SessionEvent event;
  event.kind = static_cast<EventKind>(static_cast<unsigned>(session[0]) % kEventKindCount);
  event.choice = static_cast<std::uint8_t>(session[1]);
  session = session.subspan(2);
  if (event.kind != EventKind::kReceive) return event;
  if (session.size() < 2) return std::nullopt;
  const std::size_t size =
      static_cast<std::size_t>(session[0]) + 256 * static_cast<std::size_t>(session[1]);
  session = session.subspan(2);
  if (session.size() < size) return std::nullopt;
  event.message.assign(session.begin(), session.begin() + static_cast<std::ptrdiff_t>(size));
  session = session.subspan(size);
  return event;
}

SessionRank::SessionRank(Rank rank) : protocol_(make_tree(rank, kHosts), settings(), 0, sum_here) {}

void SessionRank::perform(const SessionEvent& event) {
  Request join;
  switch (event.kind) {
    case EventKind::kSubmit: {
      const Request request = request_of(event.choice);
      const std::size_t values = event.choice % 7 == 0 ? 0 : eager_bytes(request);
      protocol_.submit(++tickets_, request, Bytes(values, std::byte{event.choice}));
      return;
    }
    case EventKind::kReceive:
      return protocol_.receive(event.choice % 4, event.message);
    case EventKind::kTick:
      now_ += std::chrono::milliseconds(100 * event.choice);
      return protocol_.tick(now_);
    case EventKind::kFinish:
      if (unfinished_.empty()) return;
      protocol_.finished(unfinished_.front());
      unfinished_.erase(unfinished_.begin());
      return;
    case EventKind::kJoin:
      join.name = "join";
      join.kind = CollectiveKind::kJoin;
      join.set = event.choice % 2;
      join.joins_average = event.choice >= 128;
      protocol_.submit(++tickets_, join);
      return;
    case EventKind::kRankStatus:
      if (look_) protocol_.status_reported("train.py:12");
      look_ = false;
      return;
    case EventKind::kLeave:
      return protocol_.leave();
  }
}

std::vector<OutgoingMessage> SessionRank::outcome() {
  std::vector<OutgoingMessage> messages;
  while (auto message = protocol_.next_message()) {
    expect(message->to >= 0 && message->to < 4);
    ByteReader in(message->bytes);
    deserialize<MessageHeader>(in);
    messages.push_back(std::move(*message));
  }
  while (auto effect = protocol_.next_effect()) {
    expect(!stopped_);
    if (const auto* batch = std::get_if<RunBatch>(&*effect)) {
      expect(!batch->members.empty() && batch->divisor > 0);
      expect(batch->result.empty() ||
             batch->result.size() == eager_bytes(*batch->members.front().request));
      for (const BatchMember& member : batch->members) {
        expect(member.request != nullptr && member.ticket <= tickets_);
        FusionKey key = fusion_key(*member.request);
        if (batch->key.arena == 0) key.arena = 0;  // a rank has joined
        expect(key == batch->key);
      }
      unfinished_.push_back(batch->number);
    }
    look_ = look_ || std::holds_alternative<ProbeRanks>(*effect);
    stopped_ = std::holds_alternative<Stopped>(*effect);
  }
  return messages;
}

}  // namespace hvd::engine::test
