#include "runner/output_count.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "runner/process.h"

namespace hvd::runner {
namespace {

std::uint64_t number_in(const std::string& path) {
  std::uint64_t number = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&number), sizeof number);
  return number;
}

TEST(OutputCount, TellsTwiceTheBytesAndIsOddDuringARead) {
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  OutputCount count;
  std::istringstream place(count.place(out.write_end.get(), err.write_end.get()));
  std::string path, inode, out_name, err_name;
  ASSERT_TRUE(place >> path >> inode >> out_name >> err_name);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(inode, std::to_string(info.st_ino));
  EXPECT_TRUE(out_name.starts_with("pipe:[") && err_name.starts_with("pipe:["));
  EXPECT_NE(out_name, err_name);
  EXPECT_EQ(number_in(path), 0u);
  count.begin_read();
  EXPECT_EQ(number_in(path) % 2, 1u);
  count.end_read(5);
  EXPECT_EQ(number_in(path), 10u);
  count.begin_read();
  count.end_read(0);
  EXPECT_EQ(number_in(path), 10u);
}

}  // namespace
}  // namespace hvd::runner
