#include "core/runtime/tensor_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/allocators.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

Status not_submitted(const std::string& name, const Status& why) {
  if (why.code() != StatusCode::kAborted) return why;
  return {why.code(), readable_name(name) + " was not submitted: " + why.message()};
}

void TensorTable::add(std::span<Submission> submissions, std::span<Handle> handles) {
  RecycledVector<InFlightPtr> entries;
  entries.reserve(submissions.size());
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    const auto& entry =
        entries.emplace_back(make_recycled<InFlight>(ownership_, std::move(submissions[i])));
    handles[i] = Handle(std::shared_ptr<Completion>(entry, &entry->completion));
  }

  const MutexLock lock(mutex_);
  if (!closed_.ok()) not_submitted(entries.front()->name(), closed_).throw_if_error();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string refusal = take_in(entries[i]);
    if (refusal.empty()) continue;
    for (std::size_t j = i; j > 0; --j) put_back(*entries[j - 1]);
    throw InvalidArgumentError(readable_name(entries[i]->name()) + " " + refusal);
  }
  for (InFlightPtr& entry : entries) {
    entry->ticket = ++last_ticket_;
    by_ticket_.emplace(entry->ticket, entry);
    if (!waits(*entry)) {
      give(std::move(entry));
    } else if (entry->submission.request.kind == CollectiveKind::kJoin) {
      waiting_joins_.push_back(std::move(entry));
    }
  }
  count_.store(by_ticket_.size(), std::memory_order_release);
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
    waiting_.clear();
    for (const InFlightPtr& entry : entries) entry->next_of_name.reset();  // `entries` has them
    waiting_joins_.clear();
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

std::string TensorTable::take_in(const InFlightPtr& entry) {
  const Request& request = entry->submission.request;
  if (joined_.contains(request.set)) {
    return "was submitted to process set " + std::to_string(request.set) +
           ", which this rank has joined; wait for the handle of the join";
  }
  const auto [known, is_free] = names_.try_emplace(entry->name(), entry.get());
  const bool join = request.kind == CollectiveKind::kJoin;
  if (!is_free && (join || known->second->completion.held())) {
    return "is already in flight on this rank; wait for its handle, or submit under another name";
  }
  entry->has_name = true;
  if (!is_free) {
    entry->before_of_name = known->second;
    known->second->next_of_name = entry;
    known->second = entry.get();
    ++waiting_[request.set];
  }
  if (join) joined_.insert(request.set);
  return {};
}

void TensorTable::put_back(InFlight& entry) {
  const Request& request = entry.submission.request;
  if (request.kind == CollectiveKind::kJoin) joined_.erase(request.set);
  if (InFlight* before = std::exchange(entry.before_of_name, nullptr)) {
    names_.at(entry.name()) = before;
    before->next_of_name.reset();  // not the last owner: add() has it
    --waiting_[request.set];
  } else {
    names_.erase(entry.name());
  }
}

void TensorTable::forget(InFlight& entry) {
  const Request& request = entry.submission.request;
  if (request.kind == CollectiveKind::kJoin) joined_.erase(request.set);
  if (std::exchange(entry.has_name, false)) release(entry);
}

void TensorTable::release(InFlight& entry) {
  const auto known = names_.find(entry.name());
  if (known == names_.end()) return;  // closed meanwhile
  InFlight* const last = known->second;
  names_.erase(known);  // its key is this entry's
  InFlightPtr next = std::move(entry.next_of_name);
  if (next == nullptr) return;
  names_.emplace(next->name(), last);
  next->before_of_name = nullptr;
  const ProcessSetId set = next->submission.request.set;
  give(std::move(next));
  if (--waiting_[set] > 0) return;
  waiting_.erase(set);
  const auto join =
      std::find_if(waiting_joins_.begin(), waiting_joins_.end(),
                   [&](const InFlightPtr& one) { return one->submission.request.set == set; });
  if (join == waiting_joins_.end()) return;
  InFlightPtr ready = std::move(*join);
  waiting_joins_.erase(join);
  give(std::move(ready));
}

bool TensorTable::waits(const InFlight& entry) const {
  const Request& request = entry.submission.request;
  return entry.before_of_name != nullptr ||
         (request.kind == CollectiveKind::kJoin && waiting_.contains(request.set));
}

void TensorTable::give(InFlightPtr entry) {
  added_.push_back(std::move(entry));
  any_added_.store(true, std::memory_order_release);
}

}  // namespace hvd::engine
