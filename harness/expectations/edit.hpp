// harness/expectations/edit.hpp: brings a file of expectations up to what a record says, as text: comments, links,
// conditions and the order stay.
#pragma once

#include "harness/expectations/expectations.hpp"

namespace plumbline::expectations {

struct Edit {
  std::string text;                  // of the file, edited
  std::vector<std::string> changes;  // a line each: what was added, changed, taken out
  std::vector<std::string> left;     // a line each: what a person must decide
};

/// Adds an entry for each failure that has none, and changes the verdict of an entry whose cases all are in the record
/// and end in another way. One entry does for a requirement, a check, or a check with one parameter, all of whose cases
/// in the suite failed in the same way; where failures name requirements, each entry names one of those. What an
/// expired or included entry names, and entries of which only some cases pass or are in the record, are left. `text`
/// may be empty: then the file is begun. Lines end as the first one does. Pure. Throws what Expectations::of_text()
/// does.
[[nodiscard]] Edit update(const std::string& text, const std::filesystem::path& file, const record::Run& run,
                          const suite::Suite& suite, std::chrono::sys_days today);

/// Takes out the entries all of whose cases pass, with the comment lines that stand directly over them and none that
/// stand under them. Entries of flakes and of what is not executed stay, for a pass proves nothing of them, and so do
/// those with cases that the record lacks. Throws RuntimeFailure where more entries would be lost than those.
[[nodiscard]] Edit prune(const std::string& text, const std::filesystem::path& file, const record::Run& run,
                         const suite::Suite& suite, std::chrono::sys_days today);

/// How often the cases of an expected flake failed.
struct FlakeRate {
  const Entry* entry = nullptr;
  int records = 0;  // in which it ran, at most kFlakeRecords
  int tries = 0, failures = 0;
};
/// So many records without a failure, and a flake is none.
inline constexpr int kFlakeRecords = 50;
/// Of each flake of the book, over the latest kFlakeRecords of `runs` in which it ran.
[[nodiscard]] std::vector<FlakeRate> flake_rates(const Expectations& book, std::vector<record::Run> runs);

}  // namespace plumbline::expectations
