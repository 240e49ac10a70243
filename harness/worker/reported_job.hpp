// harness/worker/reported_job.hpp: a job whose output goes to this process's own, where the driver finds its tail.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harness/suite/check.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::worker {

/// Changes the record that a program left: a job that is wrong on purpose.
using RewriteRecord = std::function<void(const job::RunSpec& spec, const std::filesystem::path& record)>;
/// The one to apply to the next run; null where the record is to stay as it is.
using ChooseRewrite = std::function<const RewriteRecord*()>;

class ReportedJob final : public suite::Job {
 public:
  /// What `choose` gives before a run is called after it, if it ended well, with the specification as it was before: a
  /// program may do to its input files what it likes.
  ReportedJob(std::unique_ptr<suite::Job> job, ChooseRewrite choose)
      : job_(std::move(job)), choose_(std::move(choose)) {}
  /// Throws MachineFailure for whatever keeps the program from running but itself.
  std::string run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) override;
  void end_by(std::chrono::steady_clock::time_point deadline) override { job_->end_by(deadline); }

 private:
  std::unique_ptr<suite::Job> job_;
  ChooseRewrite choose_;
};

}  // namespace plumbline::worker
