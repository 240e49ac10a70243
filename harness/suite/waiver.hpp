// harness/suite/waiver.hpp: what the suite's maintainers know of subjects and of their own checks.
//
// Model   A waiver (conformance/waivers.toml) says that a subject may fail some checks for a time, with a public issue,
//         a reason and who granted it; it counts in a statement and is listed there. A suite issue
//         (conformance/suite-issues.toml) takes a check out for everybody, because the check itself is at fault.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite/version.hpp"

namespace plumbline::suite {

struct Waiver {
  SubjectRange subject;
  std::string device;               // host class or device to which it is limited, with * and ?; "*" is all
  std::vector<std::string> checks;  // requirement, check or case ids, with * and ?
  std::string link;
  std::string reason;
  std::string grantor;
  std::chrono::sys_days date;
  std::chrono::sys_days until;  // the last day on which it counts
  std::string origin;           // "conformance/waivers.toml:12"
};

struct SuiteIssue {
  std::vector<std::string> checks;
  std::string link;
  std::string reason;
  std::string since;  // suite version
  std::string origin;
};

/// The [[waive]] and the [[issue]] tables of a file. Throw InvalidArgument with file, line, column and what is wrong.
[[nodiscard]] std::vector<Waiver> waivers_of_toml(std::string_view text, std::string_view origin);
[[nodiscard]] std::vector<SuiteIssue> suite_issues_of_toml(std::string_view text, std::string_view origin);

}  // namespace plumbline::suite
