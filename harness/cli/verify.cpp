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
  if (!day) throw InvalidArgument(fmt::format("--date '{}'; it is a day such as 2027-03-31", options.date));
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
  CLI::App* command = app.add_subcommand("verify", "Say whether a conformance statement holds; runs nothing");
  auto options = std::make_shared<VerifyOptions>();
  command->add_option("folder", options->folder, "What plumbline submit made")->required()->type_name("DIR");
  command
      ->add_option("--signers", options->signers,
                   "Demand a signature by one of these: a line is NAME KEYTYPE KEY, as ssh-keygen's ALLOWED SIGNERS")
      ->type_name("FILE");
  command->add_option("--date", options->date, "Whether it holds on this day (default: today)")->type_name("DAY");
  command->footer("Example: plumbline verify acme-ccl-2.4.1 --signers vendors.txt");
  return [options, &program] { return verify(*options, program); };
}

}  // namespace plumbline::cli
