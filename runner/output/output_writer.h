#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// Writes to this process's standard output and standard error on a thread of its own: a reader that
// does not read (a pager, Ctrl-S) makes that thread wait, and no other. One thread uses it.
class OutputWriter {
 public:
  static constexpr std::size_t kEnough = 1 << 20;  // bytes that wait; above it, take no more output

  OutputWriter();
  // Waits a second for what is not written.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  void write(Stream stream, std::string text);
  bool has_room() const;
  // The reader of one of them has left: what is not written never will be.
  bool reader_left() const;
  // Why one of them takes nothing any more, although no reader has left: "cannot write standard
  // output: No space left on device". What is for the other one is still written. "" = all is well.
  std::string trouble() const;
  // A descriptor that can be read when has_room(), reader_left() or trouble() may have changed, or
  // all is written; until acknowledge().
  int changed() const;
  void acknowledge();
  // Returns when all is written, when `stop` can be read, or when nothing could be written for
  // `patience` (empty = however long the reader takes).
  void drain(int stop, std::optional<Duration> patience);
  // Whether both streams go to one terminal or file.
  static bool one_place();

 private:
  struct State;

  std::shared_ptr<State> state_;  // the thread's too: it may outlive this object, in write()
};

// The files of --output-filename: FOLDER/rank.N/stdout and FOLDER/rank.N/stderr, N with the digits
// of the last rank (rank.03 of 16). They have what the ranks wrote, byte by byte.
class RankFiles {
 public:
  // An empty `folder` means no files. Throws InvalidArgumentError when a file cannot be created.
  // Of `count` ranks from `first` on, of `np`.
  RankFiles(const std::string& folder, int np, int first, int count);
  RankFiles(const std::string& folder, int np) : RankFiles(folder, np, 0, np) {}

  // What went wrong, once; empty when all went well.
  std::string write(int rank, Stream stream, std::string_view bytes);

 private:
  struct File {
    UniqueFd fd;
    std::string path;
  };
  std::map<std::pair<int, Stream>, File> files_;
};

}  // namespace hvd::runner
