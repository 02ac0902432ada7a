#include "core/runtime/tensor_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/recycling_allocator.h"
#include "core/base/stack_memory.h"
#include "core/negotiate/call_name.h"

namespace hvd {

void TensorTable::add(std::span<Submission> submissions, std::span<Handle> handles) {
  StackMemory<256> memory;
  std::pmr::vector<InFlightPtr> entries(&memory.resource);
  entries.reserve(submissions.size());
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    const auto& entry = entries.emplace_back(make_recycled<InFlight>(seat_));
    entry->submission = std::move(submissions[i]);
    handles[i] = Handle(std::shared_ptr<Completion>(entry, &entry->completion));
  }

  const MutexLock lock(mutex_);
  if (closed_.code() == StatusCode::kAborted) {
    throw AbortedError(readable_name(entries.front()->name()) + " was not submitted: " +
                       closed_.message());
  }
  closed_.throw_if_error();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string refusal = take_in(*entries[i]);
    if (refusal.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) forget(*entries[j]);
    throw InvalidArgumentError("tensor '" + entries[i]->name() + "' " + refusal);
  }
  for (InFlightPtr& entry : entries) {
    entry->ticket = ++last_ticket_;
    by_ticket_.emplace(entry->ticket, entry);
    added_.push_back(std::move(entry));
  }
  count_.store(by_ticket_.size(), std::memory_order_release);
  any_added_.store(true, std::memory_order_release);
}

std::vector<InFlightPtr> TensorTable::take_added() {
  std::vector<InFlightPtr> added;
  if (!any_added_.load(std::memory_order_acquire)) return added;
  const MutexLock lock(mutex_);
  added.swap(added_);
  any_added_.store(false, std::memory_order_release);
  return added;
}

InFlightPtr TensorTable::find(Ticket ticket) const {
  const MutexLock lock(mutex_);
  return at(ticket);
}

std::vector<InFlightPtr> TensorTable::find(std::span<const BatchMember> members) const {
  std::vector<InFlightPtr> entries;
  entries.reserve(members.size());
  const MutexLock lock(mutex_);
  for (const BatchMember& member : members) {
    entries.push_back(member.ticket == 0 ? nullptr : at(member.ticket));
  }
  return entries;
}

const InFlightPtr& TensorTable::at(Ticket ticket) const {
  const auto it = by_ticket_.find(ticket);
  if (it != by_ticket_.end()) return it->second;
  throw InternalError("ticket " + std::to_string(ticket) + " is not in flight");
}

bool TensorTable::remove(Ticket ticket) {
  InFlightPtr entry;  // outlives the lock: its destructor may free user memory
  const MutexLock lock(mutex_);
  const auto it = by_ticket_.find(ticket);
  if (it == by_ticket_.end()) return false;
  entry = std::move(it->second);
  by_ticket_.erase(it);
  forget(*entry);
  count_.store(by_ticket_.size(), std::memory_order_release);
  return true;
}

void TensorTable::remove(std::span<const InFlightPtr> entries) {
  const MutexLock lock(mutex_);
  for (const InFlightPtr& entry : entries) {
    if (by_ticket_.erase(entry->ticket) != 0) forget(*entry);
  }
  count_.store(by_ticket_.size(), std::memory_order_release);
}

void TensorTable::release_names(std::span<const InFlightPtr> entries) {
  const MutexLock lock(mutex_);
  for (const InFlightPtr& entry : entries) forget(*entry);
}

std::vector<InFlightPtr> TensorTable::close(const Status& why) {
  std::vector<InFlightPtr> entries;
  std::vector<InFlightPtr> added;
  {
    const MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    entries.reserve(by_ticket_.size());
    for (auto& [ticket, entry] : by_ticket_) entries.push_back(std::move(entry));
    by_ticket_.clear();
    count_.store(0, std::memory_order_release);
    any_added_.store(false, std::memory_order_release);
    names_.clear();
    joined_.clear();
    added.swap(added_);
  }
  std::sort(entries.begin(), entries.end(),
            [](const InFlightPtr& a, const InFlightPtr& b) { return a->ticket < b->ticket; });
  return entries;
}

Status TensorTable::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

std::string TensorTable::take_in(InFlight& entry) {
  const Request& request = entry.submission.request;
  if (joined_.contains(request.set)) {
    return "was submitted to process set " + std::to_string(request.set) +
           ", which this rank has joined; wait for the handle of the join";
  }
  if (!names_.insert(entry.name()).second) {
    return "is already in flight on this rank; wait for its handle, or submit under another name";
  }
  entry.has_name = true;
  if (request.kind == CollectiveKind::kJoin) joined_.insert(request.set);
  return {};
}

void TensorTable::forget(InFlight& entry) {
  if (std::exchange(entry.has_name, false)) names_.erase(entry.name());
  if (entry.submission.request.kind == CollectiveKind::kJoin) {
    joined_.erase(entry.submission.request.set);
  }
}

}  // namespace hvd
