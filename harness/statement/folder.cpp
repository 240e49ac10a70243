#include "harness/statement/folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "harness/junit/junit.hpp"
#include "harness/record/file.hpp"
#include "harness/run/judgement.hpp"
#include "harness/statement/page.hpp"
#include "harness/statement/signature.hpp"
#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::statement {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kStatement = "statement.json";
constexpr const char* kSignature = "statement.json.sig";
constexpr const char* kSums = "SHA256SUMS";
constexpr const char* kSubject = "SUBJECT.toml";
// All but the records.
constexpr std::array kNames{"STATEMENT.md", "STATEMENT.html", "REPRODUCE.sh", "capabilities.json", "environment.json",
                            "waivers.json", "junit.xml",      kStatement,     kSignature,          kSums,
                            kSubject};

using Files = std::map<std::string, std::string>;  // by name

std::string read_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw RuntimeFailure(fmt::format("cannot read '{}'", file.string()));
  return text.str();
}

std::string record_name(const run::NamedRun& shard) {
  const auto& of_whole = shard.run.header.shard;
  return of_whole ? fmt::format("run-{}.jsonl", of_whole->index) : "run.jsonl";
}

std::string text_of(const json& value) { return value.dump(2) + "\n"; }

// ---- what follows from the records ----

json rows_of_waivers(const Statement& statement) {
  json list = json::array();
  for (const suite::Waiver* waiver : statement.waivers)
    list.push_back({{"subject", waiver->subject.text()},
                    {"device", waiver->device},
                    {"checks", waiver->checks},
                    {"link", waiver->link},
                    {"reason", waiver->reason},
                    {"grantor", waiver->grantor},
                    {"until", suite::text_of(waiver->until)},
                    {"origin", waiver->origin}});
  return list;
}

json predicate_of(const Statement& statement) {
  const record::Header& header = statement.whole.header;
  json lines = json::array();
  for (const Line& line : statement.lines)
    lines.push_back({{"requirement", line.requirement->citation()},
                     {"level", suite::name_of(line.requirement->level)},
                     {"outcome", name_of(line.verdict.judgement)},
                     {"cases", line.verdict.cases},
                     {"ran", line.verdict.ran}});
  const SubjectFile& subject = statement.subject;
  return {{"claim", statement.claim()},
          {"subject",
           {{"vendor", subject.vendor},
            {"product", subject.product},
            {"version", subject.version},
            {"type", subject.type},
            {"url", subject.url},
            {"contact", subject.contact},
            {"calls_itself", statement.calls_itself}}},
          {"suite_version", header.suite_version},
          {"profile", {{"name", statement.profile->name}, {"version", statement.profile->version}}},
          {"made", suite::text_of(statement.made)},
          {"valid_until", suite::text_of(statement.valid_until)},
          {"seeds", header.statement_seeds},
          {"arms", statement.arms},
          {"worlds", statement.worlds},
          {"plan_hash", header.plan_hash},
          {"requirements", lines},
          {"waivers", rows_of_waivers(statement)}};
}

Files derived_files(const Statement& statement, const std::vector<run::NamedRun>& shards) {
  json environments = json::object();  // hosts and loads differ from shard to shard
  for (const run::NamedRun& shard : shards) environments[record_name(shard)] = shard.run.header.environment;
  return {{"environment.json", text_of(environments)},
          {"capabilities.json", text_of(statement.whole.subject)},
          {"waivers.json", text_of(rows_of_waivers(statement))},
          {"junit.xml", junit::to_junit(statement.whole)},
          {"REPRODUCE.sh", reproduce_script(statement)},
          {"STATEMENT.md", markdown_of(statement)},
          {"STATEMENT.html", html_of(statement)}};
}

// As github.com/in-toto/attestation has it, version 1.
std::string in_toto(const Statement& statement, const std::map<std::string, std::string>& digests) {
  json subjects = json::array();
  for (const auto& [name, digest] : digests) subjects.push_back({{"name", name}, {"digest", {{"sha256", digest}}}});
  return text_of({{"_type", "https://in-toto.io/Statement/v1"},
                  {"subject", subjects},
                  {"predicateType", "urn:plumbline:conformance:v1"},
                  {"predicate", predicate_of(statement)}});
}

std::string sums_text(const std::map<std::string, std::string>& digests) {
  std::string text;
  for (const auto& [name, digest] : digests) text += fmt::format("{}  {}\n", digest, name);
  return text;
}

std::vector<std::string> names_of(const Files& files) {
  std::vector<std::string> names;
  for (const auto& [name, text] : files) names.push_back(name);
  return names;
}

}  // namespace

namespace {

// A new one, in which a statement comes about.
fs::path folder_beside(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  std::string name = folder.string() + ".XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw RuntimeFailure(fmt::format("cannot make a folder '{}': {}", name, std::strerror(errno)));
  fs::permissions(name, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                            fs::perms::others_exec);
  return name;
}

}  // namespace

void write_folder(const fs::path& given, const suite::Suite& suite, const std::string& subject_toml,
                  const std::vector<run::NamedRun>& shards, const std::vector<fs::path>& records, const fs::path& key) {
  std::error_code error;
  const fs::path folder = given.has_filename() ? given : given.parent_path();  // of "DIR/"
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    throw InvalidArgument(fmt::format("--out '{}': it is not empty; give a folder that there is not", folder.string()));
  const Statement statement = make_statement(suite, read_subject(subject_toml, kSubject), shards);
  Files files = derived_files(statement, shards);
  files[kSubject] = subject_toml;
  for (std::size_t i = 0; i < shards.size(); ++i) files[record_name(shards[i])] = read_file(records[i]);
  const fs::path fresh = folder_beside(folder);
  try {
    for (const auto& [name, text] : files) record::write_file(fresh / name, text);
    auto digests = digests_of(fresh, names_of(files));
    record::write_file(fresh / kStatement, in_toto(statement, digests));
    digests.merge(digests_of(fresh, {kStatement}));
    record::write_file(fresh / kSums, sums_text(digests));
    if (!key.empty()) sign(fresh / kStatement, key);
    fs::remove(folder, error);  // where it is empty
    fs::rename(fresh, folder);
  } catch (...) {
    fs::remove_all(fresh, error);
    throw;
  }
}

// ---- verifying ----

namespace {

class Verifier {
 public:
  Verifier(const fs::path& folder, const suite::Suite& suite, std::string_view suite_version,
           std::chrono::sys_days today)
      : folder_(folder), suite_(suite), suite_version_(suite_version), today_(today) {}

  Verified verify(const fs::path& signers) {
    look();
    if (out_.problems.empty()) compare_digests();
    read_records();
    if (!shards_.empty() && out_.problems.empty()) judge();
    verify_signature(signers);
    return std::move(out_);
  }

 private:
  void problem(const std::string& name, const std::string& why) {
    out_.problems.push_back(fmt::format("{}: {}", name, why));
  }

  static bool is_part(const std::string& name) {
    static const std::regex record(R"(run(-[0-9]+)?\.jsonl)");
    return std::ranges::count(kNames, name) > 0 || std::regex_match(name, record);
  }

  // Which files there are.
  void look() {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || entry.is_symlink() || !is_part(name))
        problem(name, "it is no part of a statement");
      else
        here_.insert(name);
    }
    for (const char* name : {kStatement, kSums, kSubject})
      if (!here_.contains(name)) problem(name, "it is missing");
  }

  // SHA256SUMS and what statement.json is about have the digest of every file, and of no other.
  void compare_digests() {
    std::vector<std::string> names;
    for (const std::string& name : here_)
      if (name != kSums && name != kSignature) names.push_back(name);
    digests_ = digests_of(folder_, names);
    std::map<std::string, std::string> sums, attested;
    std::istringstream lines(read_file(folder_ / kSums));
    for (std::string line; std::getline(lines, line);)
      if (const auto gap = line.find("  "); gap != std::string::npos) sums[line.substr(gap + 2)] = line.substr(0, gap);
    hold_against(sums, kSums, digests_);
    if (out_.problems.empty() && read_file(folder_ / kSums) != sums_text(digests_))
      problem(kSums, "it has other lines than a digest for each file");
    try {
      const json statement = reading::parse_flat(read_file(folder_ / kStatement));
      for (const json& one : statement.at("subject"))
        attested[one.at("name").get<std::string>()] = one.at("digest").at("sha256").get<std::string>();
    } catch (const json::parse_error&) {
      problem(kStatement, "it is no JSON");
      return;
    } catch (const std::exception& error) {
      problem(kStatement, fmt::format("it is no in-toto statement: {}", error.what()));
      return;
    }
    auto but_itself = digests_;
    but_itself.erase(kStatement);
    hold_against(attested, kStatement, but_itself);
  }

  void hold_against(const std::map<std::string, std::string>& listed, const char* list,
                    const std::map<std::string, std::string>& found) {
    for (const auto& [name, digest] : found)
      if (const auto due = listed.find(name); due == listed.end())
        problem(name, fmt::format("{} does not list it", list));
      else if (due->second != digest)
        problem(name, fmt::format("it was changed: its SHA-256 is {}, and {} has {}", digest, list, due->second));
    for (const auto& [name, digest] : listed)
      if (!found.contains(name)) problem(name, fmt::format("it is missing, and {} lists it", list));
  }

  void read_records() {
    for (const std::string& name : here_) {
      if (!name.starts_with("run") || !name.ends_with(".jsonl")) continue;
      try {
        shards_.push_back({name, record::read(folder_ / name)});
        if (record_name(shards_.back()) != name)
          problem(name, fmt::format("it is {}, by what it says", record_name(shards_.back())));
      } catch (const std::exception& error) {
        problem(name, error.what());
      }
    }
    if (shards_.empty()) problem("run.jsonl", "it is missing");
  }

  // What the records prove, and whether all other files say just that.
  void judge() {
    out_.problems = problems_of(suite_, suite_version_, shards_, today_);
    if (!out_.problems.empty()) return;
    std::optional<Statement> statement;
    try {
      statement = make_statement(suite_, read_subject(read_file(folder_ / kSubject), kSubject), shards_);
    } catch (const InvalidArgument& error) {
      out_.problems.emplace_back(error.what());
      return;
    }
    auto digests = digests_;
    digests.erase(kStatement);
    Files due = derived_files(*statement, shards_);
    due[kStatement] = in_toto(*statement, digests);
    for (const auto& [name, text] : due)
      if (!here_.contains(name))
        problem(name, "it is missing");
      else if (read_file(folder_ / name) != text)
        problem(name, "it does not say what the records prove");
    out_.claim = statement->claim();
    out_.note = statement->changes();
    out_.valid_until = statement->valid_until;
    if (statement->valid_until < today_) problem(kStatement, expiry(*statement));
  }

  [[nodiscard]] static std::string expiry(const Statement& statement) {
    for (const suite::Waiver* waiver : statement.waivers)
      if (waiver->until == statement.valid_until)
        return fmt::format("it ended on {} with the waiver of {}", suite::text_of(waiver->until), waiver->origin);
    return fmt::format("it ended on {}", suite::text_of(statement.valid_until));
  }

  void verify_signature(const fs::path& signers) {
    if (!here_.contains(kSignature)) {
      if (!signers.empty()) problem(kSignature, "it is missing; --signers demands a signature");
      return;
    }
    if (!here_.contains(kStatement)) return;
    if (!read_file(folder_ / kSignature).ends_with("-----END SSH SIGNATURE-----\n"))
      problem(kSignature, "it has more than a signature");
    const Signer signer = signer_of(folder_ / kStatement, signers);
    if (!signer.problem.empty()) problem(kSignature, signer.problem);
    out_.is_signed = true;
    out_.signer = signer.name;
  }

  const fs::path& folder_;
  const suite::Suite& suite_;
  const std::string_view suite_version_;
  const std::chrono::sys_days today_;
  std::set<std::string> here_;  // names
  std::map<std::string, std::string> digests_;
  std::vector<run::NamedRun> shards_;
  Verified out_;
};

}  // namespace

Verified verify_folder(const fs::path& folder, const suite::Suite& suite, std::string_view suite_version,
                       const fs::path& signers, std::chrono::sys_days today) {
  if (!fs::is_directory(folder))
    throw InvalidArgument(fmt::format("'{}' is no folder; give that which plumbline submit made", folder.string()));
  if (!signers.empty() && !fs::is_regular_file(signers))
    throw InvalidArgument(
        fmt::format("--signers '{}': there is no such file; a line of it is NAME KEYTYPE KEY", signers.string()));
  return Verifier(folder, suite, suite_version, today).verify(signers);
}

}  // namespace plumbline::statement
