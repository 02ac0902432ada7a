#include "core/observe/flight_recorder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/config/log.h"
#include "core/observe/json_string.h"
#include "core/system/files.h"
#include "core/system/host.h"

namespace hvd::engine {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot write the flight recorder's '" + path + "': " + why);
}

[[noreturn]] void refuse(const std::string& path) {
  refuse(path, std::strerror(errno));
}

[[noreturn]] void refuse_place(const std::string& path, const std::string& why) {
  refuse(path, why + "; remove it, or set HVD_FLIGHT_RECORDER_DIR to a folder of your own");
}

// Asks the folder that is open: no other can be put in its place meanwhile.
void check_private(const UniqueFd& folder, const std::string& path) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) refuse(path);
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse_place(path, "it belongs to another user, or others may write to it");
  }
}

UniqueFd open_base(const RecordFolder& where) {
  // One that the user chose may be a link.
  const int no_link = where.is_default ? O_NOFOLLOW : 0;
  if (mkdir(where.base.c_str(), kPrivateFolder) != 0 && errno != EEXIST) refuse(where.base);
  UniqueFd base(open(where.base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_link));
  if (!base && where.is_default) refuse_place(where.base, std::strerror(errno));
  if (!base) refuse(where.base);
  if (where.is_default) check_private(base, where.base);
  return base;
}

using NameFilter = std::function<bool(std::string_view)>;

std::vector<std::string> names_in(const UniqueFd& folder, const NameFilter& wanted) {
  std::vector<std::string> names;
  // From its beginning, even if it was read before; closedir() closes the descriptor.
  DIR* const stream = fdopendir(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return names;
  while (const dirent* const entry = readdir(stream)) {
    if (wanted(entry->d_name)) names.emplace_back(entry->d_name);
  }
  closedir(stream);
  return names;
}

void remove_job(const UniqueFd& base, const std::string& job) {
  const UniqueFd folder(
      openat(base.get(), job.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return;
  const auto is_record = [](std::string_view name) {
    return name.starts_with("flight_recorder.rank");
  };
  for (const std::string& name : names_in(folder, is_record)) {
    unlinkat(folder.get(), name.c_str(), 0);
  }
  unlinkat(base.get(), job.c_str(), AT_REMOVEDIR);  // not if the user keeps something there
}

// Ranks of other jobs may do the same just now: what is gone already is fine.
void remove_old_jobs(const UniqueFd& base) {
  std::vector<std::pair<std::int64_t, std::string>> jobs;  // when something was put there
  for (std::string& name : names_in(base, is_job_name)) {
    struct stat status {};
    if (fstatat(base.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(status.st_mode)) jobs.emplace_back(status.st_mtim.tv_sec, std::move(name));
  }
  std::ranges::sort(jobs, std::greater<>());
  for (std::size_t i = kJobsKept; i < jobs.size(); ++i) remove_job(base, jobs[i].second);
}

}  // namespace

bool add_record(const RecordFolder& where, const std::string& name, const std::string& text) {
  const std::string path = where.path() + "/" + name;
  const UniqueFd base = open_base(where);
  const bool is_first = mkdirat(base.get(), where.job.c_str(), kPrivateFolder) == 0;
  if (!is_first && errno != EEXIST) refuse(where.path());
  const UniqueFd folder(
      openat(base.get(), where.job.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) refuse(where.path());
  check_private(folder, where.path());
  const std::string part = name + ".part";
  unlinkat(folder.get(), part.c_str(), 0);  // of a process that was killed
  const UniqueFd file(openat(folder.get(), part.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivateFile));
  if (!file) refuse(path);
  if (!write_all(file, text) ||
      renameat(folder.get(), part.c_str(), folder.get(), name.c_str()) != 0) {
    const int why = errno;
    unlinkat(folder.get(), part.c_str(), 0);
    refuse(path, std::strerror(why));
  }
  if (is_first && where.is_default) remove_old_jobs(base);
  return is_first;
}

namespace {

constexpr const char* kStateNames[] = {"submitted", "negotiated", "started", "finished", "failed"};

std::int64_t microseconds_since_epoch() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

// Integers keep locales out of it.
std::string seconds(Duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  const std::string fraction =
      std::to_string(1'000'000 + std::max<std::int64_t>(count, 0) % 1'000'000);
  return std::to_string(std::max<std::int64_t>(count, 0) / 1'000'000) + "." + fraction.substr(1);
}

std::string status_json(const Status& status) {
  if (status.ok()) return "null";
  return R"({"code":)" + json_string(name_of(status.code())) + R"(,"message":)" +
         json_string(status.message()) + "}";
}

}  // namespace

FlightRecorder::FlightRecorder(Rank rank, int size, const FlightRecorderOptions& options)
    : rank_(rank),
      size_(size),
      begin_epoch_us_(microseconds_since_epoch()),
      folder_{options.base, {}, options.base_is_default},
      ring_(options.operations) {}

void FlightRecorder::begin(const std::string& job, bool announces) {
  const MutexLock lock(mutex_);
  folder_.job = job;
  announces_ = announces;
  for (Operation& operation : ring_) operation.ticket = 0;
}

bool FlightRecorder::has_operation() const {
  return std::ranges::any_of(ring_, [](const Operation& each) { return each.ticket != 0; });
}

void FlightRecorder::submitted(const SubmissionInfo& submission) {
  const MutexLock lock(mutex_);
  if (ring_.empty()) return;
  Operation& operation = ring_[submission.ticket % ring_.size()];
  operation.ticket = submission.ticket;
  operation.name = submission.name;
  operation.kind = submission.kind;
  operation.dtype = submission.dtype;
  operation.set = submission.set;
  operation.bytes = submission.bytes;
  operation.batch = 0;
  operation.state = State::kSubmitted;
  std::fill(std::begin(operation.at), std::end(operation.at), TimePoint{});
  operation.at[0] = submission.submitted;
  if (!operation.why.ok()) operation.why = {};
  newest_ = std::max(newest_, submission.ticket);
}

FlightRecorder::Operation* FlightRecorder::find(std::uint64_t ticket) {
  if (ring_.empty() || ticket == 0) return nullptr;
  Operation& operation = ring_[ticket % ring_.size()];
  return operation.ticket == ticket ? &operation : nullptr;
}

void FlightRecorder::advance(const BatchInfo& batch, State state, TimePoint at) {
  const MutexLock lock(mutex_);
  for (const BatchMemberInfo& member : batch.members) {
    Operation* const operation = find(member.ticket);
    if (operation == nullptr) continue;
    operation->batch = batch.number;
    operation->state = state;
    operation->at[static_cast<std::size_t>(state)] = at;
  }
}

void FlightRecorder::negotiated(const BatchInfo& batch) {
  advance(batch, State::kNegotiated, batch.negotiated);
}

void FlightRecorder::started(const BatchInfo& batch) {
  advance(batch, State::kStarted, batch.started);
}

void FlightRecorder::finished(const BatchInfo& batch) {
  advance(batch, State::kFinished, batch.finished);
}

void FlightRecorder::failed(std::uint64_t ticket, std::string_view, const Status& why,
                            TimePoint at) {
  const MutexLock lock(mutex_);
  Operation* const operation = find(ticket);
  if (operation == nullptr) return;
  operation->state = State::kFailed;
  operation->at[static_cast<std::size_t>(State::kFailed)] = at;
  operation->why = why;
}

void FlightRecorder::stopped(const Status& why, bool orderly) {
  RecordFolder folder;
  bool announces = false;
  {
    const MutexLock lock(mutex_);
    why_ = why;
    if (orderly || folder_.base.empty() || folder_.job.empty() || !has_operation()) return;
    folder = folder_;
    announces = announces_;
  }
  try {
    if (add_record(folder, flight_recorder_file(rank_), to_json()) && announces) {
      log(LogLevel::kWarning,
          "the last operations of this job's ranks before the failure are in " + folder.path());
    }
  } catch (const Error& error) {
    log(LogLevel::kWarning, error.what());
  }
}

std::string FlightRecorder::to_json() const {
  const MutexLock lock(mutex_);
  std::string out = R"({"rank":)" + std::to_string(rank_) + R"(,"size":)" + std::to_string(size_) +
                    R"(,"start_time_since_epoch_in_micros":)" + std::to_string(begin_epoch_us_) +
                    R"(,"now":)" + seconds(Clock::now() - begin_) + R"(,"reason":)" +
                    status_json(why_) + R"(,"operations":[)";
  const std::uint64_t kept = ring_.size();
  bool first = true;
  for (std::uint64_t ticket = newest_ < kept ? 1 : newest_ - kept + 1; ticket <= newest_;
       ++ticket) {
    const Operation& operation = ring_[ticket % kept];
    if (operation.ticket != ticket) continue;
    out += first ? "\n" : ",\n";
    first = false;
    append(operation, out);
  }
  return out + "\n]}\n";
}

void FlightRecorder::append(const Operation& operation, std::string& out) const {
  out += R"({"ticket":)" + std::to_string(operation.ticket) + R"(,"name":)" +
         json_string(operation.name) + R"(,"kind":)" + json_string(name_of(operation.kind)) +
         R"(,"dtype":)" + json_string(name_of(operation.dtype)) + R"(,"process_set":)" +
         std::to_string(operation.set) + R"(,"bytes":)" + std::to_string(operation.bytes) +
         R"(,"batch":)" +
         (operation.at[1] == TimePoint{} ? "null" : std::to_string(operation.batch)) +
         R"(,"state":")" + kStateNames[static_cast<std::size_t>(operation.state)] + '"';
  for (std::size_t state = 0; state < kStates; ++state) {
    const TimePoint at = operation.at[state];
    out += std::string(",\"") + kStateNames[state] +
           "\":" + (at == TimePoint{} ? "null" : seconds(at - begin_));
  }
  out += R"(,"error":)" + status_json(operation.why) + "}";
}

void FlightRecorder::dump(const std::string& path) const {
  const std::string text = to_json();
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit(/*to_disk=*/false);
}

}  // namespace hvd::engine
