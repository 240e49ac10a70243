#include "harness/worker/reported_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/suite/job_error.hpp"
#include "harness/suite/machine_error.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::worker {
namespace {

using Program = std::function<std::string(const std::filesystem::path& spec)>;

class MadeUpJob final : public suite::Job {
 public:
  explicit MadeUpJob(Program program) : program_(std::move(program)) {}
  std::string run(int, const std::filesystem::path& spec, const std::filesystem::path&) override {
    return program_(spec);
  }
  void end_by(std::chrono::steady_clock::time_point) override {}

 private:
  Program program_;
};

class ReportedJobTest : public testing::Test {
 protected:
  ReportedJobTest() {
    job::RunSpec spec;
    spec.seed = 7;
    spec.layers = {job::Linear{2, 3}};
    job::write_run_spec(spec, file());
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "spec.toml"; }
  std::string run(Program program, const RewriteRecord* rewrite) {
    ReportedJob job(std::make_unique<MadeUpJob>(std::move(program)), [=] { return rewrite; });
    return job.run(2, file(), folder_.path());
  }

  job::TemporaryFolder folder_;
};

std::string remove_input(const std::filesystem::path& spec) {
  std::filesystem::remove(spec);
  return "done";
}

TEST_F(ReportedJobTest, LetsAProgramTidyItsInput) { EXPECT_EQ(run(remove_input, nullptr), "done"); }

TEST_F(ReportedJobTest, RewritesByTheSpecificationThatWasGiven) {
  std::uint64_t seed = 0;
  const RewriteRecord rewrite = [&](const job::RunSpec& spec, const std::filesystem::path&) { seed = spec.seed; };
  EXPECT_EQ(run(remove_input, &rewrite), "done");
  EXPECT_EQ(seed, 7u);
}

TEST_F(ReportedJobTest, LeavesTheRecordOfAJobThatFailed) {
  bool called = false;
  const RewriteRecord rewrite = [&](const job::RunSpec&, const std::filesystem::path&) { called = true; };
  const Program fails = [](const auto&) -> std::string { throw suite::JobCrashed("rank 0 died", ""); };
  EXPECT_THROW(run(fails, &rewrite), suite::JobCrashed);
  EXPECT_FALSE(called);
}

TEST_F(ReportedJobTest, DoesNotBlameAProgramThatTheMachineCannotStart) {
  const Program cannot_start = [](const auto&) -> std::string { throw RuntimeFailure("cannot make a pipe"); };
  EXPECT_THROW(run(cannot_start, nullptr), suite::MachineFailure);
  const Program hangs = [](const auto&) -> std::string { throw suite::JobHung("no end", ""); };
  EXPECT_THROW(run(hangs, nullptr), suite::JobHung) << "that is the program's own";
}

}  // namespace
}  // namespace plumbline::worker
