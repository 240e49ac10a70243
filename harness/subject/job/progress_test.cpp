#include "harness/subject/job/progress.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "reference/record/safetensors.hpp"
#include "reference/record/training_record.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::subject {
namespace {

class ProgressTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_.path() / name) << text; }
  [[nodiscard]] std::string last(int rank) const { return last_recorded(folder_.path(), rank); }
  job::TemporaryFolder folder_;
};

TEST_F(ProgressTest, IsWhatTheProgramSays) {
  write("rank1.progress", "step3/grad/0.weight\n");
  EXPECT_EQ(last(1), "step3/grad/0.weight");
  EXPECT_EQ(last(0), "");
  write("rank0.progress", "");
  EXPECT_EQ(last(0), "") << "opened, and not yet written";
  write("rank0.progress", std::string(100000, 'x'));
  EXPECT_LT(last(0).size(), 400u);
}

TEST_F(ProgressTest, IsTheLastTensorOfTheLastStepOfARecord) {
  job::SafetensorsWriter writer;
  const float value = 0;
  for (const char* name : {"step2/before/0.bias", "step10/before/0.bias", "step10/after/0.bias", "step9/loss"})
    writer.add<float>(name, {}, std::span(&value, 1));
  writer.write(job::record_file(folder_.path(), 2));
  EXPECT_TRUE(last(2).starts_with("step10/")) << last(2);
  write("rank3.safetensors", "half of it");
  EXPECT_EQ(last(3), "a file that is no whole record");
}

TEST(InnermostFrames, AreOfPythonsCurrentThread) {
  const std::string dump =
      "waiting\nThread 0x00007f12 (most recent call first):\n  File \"/a/other.py\", line 9 in listen\n\n"
      "Current thread 0x00007f13 (most recent call first):\n  File \"/a/b/train.py\", line 31 in reduce\n"
      "  File \"/a/b/train.py\", line 40 in step\n  File \"/a/b/train.py\", line 50 in main\n"
      "  File \"/a/b/train.py\", line 60 in <module>\n\nExtension modules: numpy (total: 1)\n";
  EXPECT_EQ(innermost_frames(dump), "reduce (train.py:31) < step (train.py:40) < main (train.py:50)");
}

TEST(InnermostFrames, AreOfTheFirstThreadThatADebuggerShows) {
  const std::string dump =
      "stacks of process 7:\nThread 2 (Thread 0x7f12 (LWP 8) \"sh\"):\n#0  0x0000 in poll () from /lib/libc.so.6\n"
      "Thread 1 (Thread 0x7f13 (LWP 7) \"sh\"):\n#0  0x00007f in wait4 () from /lib/libc.so.6\n"
      "#1  main (argc=1) at a.c:3\n";
  EXPECT_EQ(innermost_frames(dump), "wait4 < main");
}

TEST(InnermostFrames, AreNoneOfOtherText) {
  EXPECT_EQ(innermost_frames(""), "");
  EXPECT_EQ(innermost_frames("step 3, loss 0.25\n  File \"a\", line 1 in b\n"), "");
}

}  // namespace
}  // namespace plumbline::subject
