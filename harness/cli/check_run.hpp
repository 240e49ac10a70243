// harness/cli/check_run.hpp: one run of `plumbline check`, from options to exit status.
//
// Model   Main pass: every planned case on the subject. Second pass: what crashed or hung runs alone, and what its
//         owner expects to be a flake runs again; a pass makes it a flake. Control run: what is still bad runs on the
//         unmutated reference; where that fails as well, the machine or the check is at fault and the verdict is
//         inconclusive. All passes are in one record, the later word holding. A resumed run takes up what is owed of
//         each.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/cli/cases.hpp"
#include "harness/cli/console.hpp"
#include "harness/cli/output_folder.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/report_options.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/expectations/known.hpp"
#include "harness/record/file.hpp"

namespace plumbline::cli {

struct CheckOptions {
  SubjectOptions subject;
  suite::Selection selection;
  std::string shuffle;
  OutputFolder out{"check-SUBJECT"};
  std::string device = "cpu";
  std::string isolate = "component";
  std::string shard;
  std::string expectations;
  std::string chaos;
  double time_limit = 0;
  double budget = 0;  // seconds; 0: none
  double progress = 30;
  ReportOptions reports;
  bool plain = false;
  bool rendezvous = false;
  bool allow_unexpected_pass = false;
  bool no_control = false;
  bool list = false;
  bool fail_fast = false;
  bool resume = false;
  bool warnings_fail = false;
  bool statement = false;
};

/// What the run is called in results/latest.
[[nodiscard]] std::string name_of_run(const CheckOptions& options);

/// What reports say of the run before anything of it is known but its options.
[[nodiscard]] record::Header unplanned_header(const CheckOptions& options);

class CheckRun {
 public:
  /// Plans. `attached_processes` is the size of the user's own job in which this runs, else 0. Throws InvalidArgument,
  /// NotFound and NotAvailable for what cannot be run.
  CheckRun(const suite::Suite& suite, const CheckOptions& options, int attached_processes);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  void list() const;
  /// Of the record, with the plan.
  [[nodiscard]] const record::Header& header() const { return header_; }
  /// Returns the exit status. Throws what the driver and the record throw.
  int run(const std::function<void(const launch::Rendezvous&)>& listening);

 private:
  using Cases = std::vector<const suite::PlannedCase*>;
  using Take = std::function<bool(const suite::PlannedCase&, const launch::Outcome&)>;
  struct Pass {
    const launch::Options& driver;
    const Cases& cases;
    bool alone = false;      // a group for each
    bool is_subject = true;  // and not the control
    Take take;
    std::function<void(const launch::Rendezvous&)> listening = {};
  };

  [[nodiscard]] bool attached() const { return driver_.group.launcher == launch::Launcher::attached; }
  void make_header();
  [[nodiscard]] std::string conditions() const;
  void prepare_record();
  void take_up_record(std::map<std::string, bool>& have);
  void require_same_machine(const record::Run& before);
  void refuse_to_replace_statement() const;

  bool all_passes(const std::function<void(const launch::Rendezvous&)>& listening);
  bool run_pass(const Pass& pass);
  bool run_each_alone(const Pass& pass);
  launch::Observer observer(const Pass& pass);
  std::optional<launch::Outcome> before(const suite::PlannedCase& planned, const nlohmann::json& description);

  bool take(const suite::PlannedCase& planned, const launch::Outcome& outcome);
  [[nodiscard]] bool wants_another_try(const record::Result& result) const;
  void announce_hang(const record::Result& result);
  bool second_tries();
  bool control_arm();
  void take_control(const suite::PlannedCase& planned, const launch::Outcome& outcome);
  [[nodiscard]] bool is_bad(const record::Result& result) const;
  [[nodiscard]] std::string repeat_command(const launch::Subject& subject, const record::Result& result) const;
  void write(record::Result& result);
  [[nodiscard]] int interrupted() const;
  void say_unless_shown(const record::Run& run) const;
  [[nodiscard]] bool budget_is_spent() const;
  /// Why the run ended before all that was planned had run, if it did on purpose; empty: it did not.
  [[nodiscard]] std::string why_stopped(bool whole) const;
  [[nodiscard]] bool lacks_results() const;
  void show_owed();

  const suite::Suite& suite_;
  const CheckOptions& options_;
  launch::Options driver_;
  suite::Selection selection_;
  CaseSettings settings_;
  std::vector<suite::PlannedCase> plan_;
  Cases todo_;
  std::optional<expectations::Expectations> book_;
  expectations::Facts facts_;
  std::optional<expectations::Known> known_;
  nlohmann::json resumed_subject_;                // what the subject claimed where a statement is resumed; null else
  nlohmann::json description_;                    // what the subject said of itself first; null before
  std::map<std::string, int> attempts_;           // made, by key
  std::map<std::string, record::Result> latest_;  // results that hold, by key
  std::set<std::string> controlled_;              // keys of results whose control ran before this run was resumed
  std::string folder_;
  record::Header header_;
  std::optional<record::Writer> writer_;
  LiveMetrics metrics_;
  Console* console_ = nullptr;
  int hangs_ = 0;               // that are to be tried again
  std::set<std::string> owed_;  // keys of results that are to be tried again and that were not reported
  bool stopped_ = false;        // by --fail-fast
};

}  // namespace plumbline::cli
