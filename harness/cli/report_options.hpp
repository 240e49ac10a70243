// harness/cli/report_options.hpp: the options by which a run is known in reports and metrics.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/record/result.hpp"

namespace plumbline::cli {

struct ReportOptions {
  std::vector<std::string> labels;  // KEY=VALUE
  std::string subject_name;

  /// --label and --subject-name, each with a check that says in one line what would be right.
  void add_to(CLI::App& app);
  /// What a command line has of them, whether or not the whole can be parsed; what is no label or name is left out.
  [[nodiscard]] static ReportOptions as_given(const CommandLine& line);
  void put_into(record::Header& header) const;
};

}  // namespace plumbline::cli
