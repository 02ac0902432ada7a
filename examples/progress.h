#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

// A progress bar on a terminal, one line per epoch elsewhere.
class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown), bar_(shown && isatty(STDOUT_FILENO) != 0) {}

  void step(int epoch, std::int64_t done, std::int64_t of, double loss) const {
    if (!bar_) return;
    constexpr int kWidth = 30;
    const auto filled = static_cast<std::size_t>(done * kWidth / of);
    const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
    std::printf("\repoch %2d [%s] %3lld/%lld loss %.4f", epoch, bar.c_str(),
                static_cast<long long>(done), static_cast<long long>(of), loss);
    std::fflush(stdout);
  }
  void epoch(int epoch, double loss, double accuracy, double samples_per_second) const {
    if (!shown_) return;
    std::printf("%sepoch %2d: loss %.4f, test accuracy %.4f, %.0f samples/s\n", bar_ ? "\r" : "",
                epoch, loss, accuracy, samples_per_second);
    std::fflush(stdout);
  }

 private:
  bool shown_;
  bool bar_;
};
