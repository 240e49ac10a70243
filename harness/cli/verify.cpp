// `plumbline verify`: does a conformance statement hold? Runs nothing and needs no network.
#include <fmt/format.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/program.hpp"
#include "harness/expectations/expectations.hpp"
#include "harness/statement/folder.hpp"
#include "harness/suite/toml_row.hpp"

namespace plumbline::cli {
namespace {

struct VerifyOptions {
  std::string folder;
  std::string signers;
  std::string date;
};

std::chrono::sys_days day_of(const VerifyOptions& options) {
  if (options.date.empty()) return expectations::today();
  const auto day = suite::parse_day(options.date);
  if (!day) throw InvalidArgument(fmt::format("--date '{}' is not a date; give one such as 2027-03-31", options.date));
  return *day;
}

int verify(const VerifyOptions& options, const Program& program) {
  const auto day = day_of(options);
  const auto found = statement::verify_folder(options.folder, program.suite(), PLUMBLINE_VERSION, options.signers, day);
  for (const std::string& problem : found.problems) fmt::print("{}\n", printable(problem));
  if (!found.problems.empty()) {
    fmt::print("NOT OK: {}: {} problem{}\n", options.folder, found.problems.size(),
               found.problems.size() == 1 ? "" : "s");
    return 1;
  }
  const std::string signer = !found.is_signed        ? "unsigned"
                             : !found.signer.empty() ? "signed by " + found.signer
                                                     : "signed, by a key of which --signers FILE tells whose it is";
  fmt::print("OK: {}, until {}; {}\n", printable(found.claim), suite::text_of(found.valid_until), printable(signer));
  if (!found.note.empty()) fmt::print("note: {}\n", printable(found.note));
  return 0;
}

}  // namespace

Command add_verify(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("verify", "Verify a conformance statement, without running any check");
  auto options = std::make_shared<VerifyOptions>();
  command->add_option("folder", options->folder, "folder that plumbline submit wrote")->required()->type_name("DIR");
  command
      ->add_option("--signers", options->signers,
                   "require a signature by one of these signers: a line NAME KEYTYPE KEY each, the ALLOWED SIGNERS "
                   "format of ssh-keygen")
      ->type_name("FILE");
  command->add_option("--date", options->date, "day on which the statement must be valid (default today)")
      ->type_name("YYYY-MM-DD");
  command->footer(
      "Example: plumbline verify acme-ccl-2.4.1 --signers vendors.txt\n"
      "Exit status: 0 the statement holds; 1 it does not; 2 usage error; 3 the machine failed.");
  return [options, &program] { return verify(*options, program); };
}

}  // namespace plumbline::cli
