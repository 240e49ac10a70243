// What a rank of the user's own job ends with.
#include "harness/launch/attach.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/launch/process.hpp"

namespace plumbline::launch {
namespace {

// Rank 1 of a job whose driver listens; its worker ends with `status`.
int status_of_rank(int status) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / ".control-job")
      << R"({"endpoint":"127.0.0.1:9","token":"","group":"g1","folder":""})" << std::endl;
  return run_attached(
      {.rank = 1, .size = 2, .job = "job"}, folder.path(), [](const Listening&) -> int { return 3; },
      [status]() -> int { ::_exit(status); });
}

TEST(AttachedRank, KeepsTheStatusOfAUsageError) {
  EXPECT_EQ(status_of_rank(0), 0);
  EXPECT_EQ(status_of_rank(2), 2);
  EXPECT_EQ(status_of_rank(7), 3) << "a runtime that ends its process has a status of its own";
}

}  // namespace
}  // namespace plumbline::launch
