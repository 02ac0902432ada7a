// Writes what the fuzzers start from:  fuzz_corpus DIRECTORY
// protocol: what every rank of some random jobs went through, one file per rank and job
// frames: what real peers send

#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include "core/base/status.h"
#include "test/fuzz/frames.h"
#include "test/fuzz/session.h"

namespace hvd::engine::test {
namespace {

constexpr int kJobs = 40;
constexpr int kEvents = 150;

class Job {
 public:
  explicit Job(unsigned seed) : random_(seed) {
    for (Rank r = 0; r < 4; ++r) {
      ranks_.emplace_back(r);
      sessions_.push_back(begin_session(r));
      send(r);
    }
  }

  void go() {
    for (int i = 0; i < kEvents; ++i) {
      const auto r = static_cast<Rank>(random_() % 4);
      perform(r, random_event(r));
    }
  }
  const std::vector<Bytes>& sessions() const { return sessions_; }

 private:
  SessionEvent random_event(Rank r) {
    for (auto& [ends, mail] : links_) {
      if (ends.second != r || mail.empty() || random_() % 4 == 0) continue;
      SessionEvent event{EventKind::kReceive, static_cast<std::uint8_t>(ends.first),
                         std::move(mail.front())};
      mail.pop_front();
      return event;
    }
    // Mostly the same few requests, so that they become complete.
    static constexpr std::uint8_t kRequests[] = {0, 1, 11, 9, 10, 200, 211, 3};
    const auto choice = random_() % 40;
    if (choice < 24) return {EventKind::kSubmit, kRequests[random_() % std::size(kRequests)]};
    if (choice < 30) return {EventKind::kFinish, 0};
    if (choice < 35) return {EventKind::kTick, static_cast<std::uint8_t>(random_() % 32)};
    if (choice < 38) return {EventKind::kRankStatus, 0};
    if (choice < 39) return {EventKind::kJoin, static_cast<std::uint8_t>(random_() % 256)};
    return {random_() % 8 == 0 ? EventKind::kLeave : EventKind::kTick, 1};
  }

  void perform(Rank r, const SessionEvent& event) {
    append(sessions_[static_cast<std::size_t>(r)], event);
    try {
      ranks_[static_cast<std::size_t>(r)].perform(event);
    } catch (const Error&) {  // what this rank may not ask for now
    }
    send(r);
  }
  void send(Rank r) {
    for (OutgoingMessage& message : ranks_[static_cast<std::size_t>(r)].outcome()) {
      links_[{r, message.to}].push_back(std::move(message.bytes));
    }
  }

  std::mt19937 random_;
  std::deque<SessionRank> ranks_;  // it grows, and they do not move
  std::vector<Bytes> sessions_;
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> links_;
};

void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_corpus(const std::filesystem::path& folder) {
  for (unsigned seed = 0; seed < kJobs; ++seed) {
    Job job(seed);
    job.go();
    for (std::size_t r = 0; r < job.sessions().size(); ++r) {
      const std::string name = "job" + std::to_string(seed) + "_rank" + std::to_string(r);
      write_file(folder / "protocol" / name, job.sessions()[r]);
    }
  }
  for (const auto& [name, bytes] : frames_of_real_peers()) {
    write_file(folder / "frames" / name, bytes);
  }
}

}  // namespace
}  // namespace hvd::engine::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_corpus DIRECTORY\n";
    return 2;
  }
  hvd::engine::test::write_corpus(argv[1]);
}
