#include "examples/cifar/history.h"

#include <filesystem>
#include <fstream>

#include <horovod_cpp/horovod.h>

namespace cifar {
namespace {

void write_csv(std::ostream& out, const std::vector<HistoryRow>& rows) {
  out << "epoch,step,lr,loss,test_accuracy\n";
  for (const HistoryRow& row : rows) {
    out << row.epoch << ',' << row.step << ',' << row.lr << ',' << row.loss << ',';
    if (row.test_accuracy >= 0) out << row.test_accuracy;
    out << '\n';
  }
}

void write_json(std::ostream& out, const std::vector<HistoryRow>& rows) {
  const char* separator = "[\n";
  for (const HistoryRow& row : rows) {
    out << separator << R"({"epoch": )" << row.epoch << R"(, "step": )" << row.step << R"(, "lr": )"
        << row.lr << R"(, "loss": )" << row.loss << R"(, "test_accuracy": )";
    if (row.test_accuracy >= 0) {
      out << row.test_accuracy << "}";
    } else {
      out << "null}";
    }
    separator = ",\n";
  }
  out << "\n]\n";
}

}  // namespace

void check_history_path(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".csv" || ending == ".json") return;
  throw hvd::InvalidArgumentError("--history " + path + ": must end in .csv or .json");
}

void write_history(const std::string& path, const std::vector<HistoryRow>& rows) {
  check_history_path(path);
  std::ofstream out(path);
  out.precision(12);
  if (path.ends_with(".csv")) {
    write_csv(out, rows);
  } else {
    write_json(out, rows);
  }
  if (!out.flush()) throw hvd::InvalidArgumentError("cannot write '" + path + "'");
}

}  // namespace cifar
