#include "harness/junit/junit.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/summary.hpp"

namespace plumbline::junit {

using record::Failure;
using record::Header;
using record::Measurement;
using record::Place;
using record::RankResult;
using record::Result;
using record::Run;
using record::Verdict;
using run::is_bad;
using run::judge;
using run::Judgement;
using run::name_of_subject;
using run::requirement_verdicts;
using run::with_missing;
using run::words_of;

namespace {

// XML 1.0 has no way at all to write most control characters.
std::string escaped_character(std::string_view character) {
  if (character == "&") return "&amp;";
  if (character == "<") return "&lt;";
  if (character == ">") return "&gt;";
  if (character == "\"") return "&quot;";
  if (character == "\n") return "&#10;";
  const auto first = static_cast<unsigned char>(character.front());
  return first < 0x20 && first != '\t' ? "?" : std::string(character);
}

// The character of a UTF-8 text that begins at `at`.
std::string_view character_at(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return text.substr(at, end - at);
}

// Bytes that are no UTF-8 would make the whole file unreadable; JSON's writer knows how to replace them.
std::string valid_utf8(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string valid = nlohmann::json::parse(quoted).get<std::string>();
  for (const char* no_character : {"\xef\xbf\xbe", "\xef\xbf\xbf"})  // of XML
    for (std::size_t at = 0; (at = valid.find(no_character, at)) != std::string::npos;) valid.replace(at, 3, 1, '?');
  return valid;
}

// As XML, in at most `most` bytes: what does not fit is left out at the end, or at the beginning, with an ellipsis
// there.
enum class Keep { beginning, end };
std::string escaped(const std::string& any_bytes, std::size_t most = std::string::npos, Keep keep = Keep::beginning) {
  constexpr std::string_view ellipsis = "…";
  const std::string text = valid_utf8(any_bytes);
  std::vector<std::string> characters;
  std::size_t size = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    characters.push_back(escaped_character(character));
    size += characters.back().size();
  }
  if (size > most && keep == Keep::end) std::ranges::reverse(characters);
  std::vector<std::string> kept;
  std::size_t used = 0;
  for (std::string& character : characters) {
    if (size > most && used + character.size() + ellipsis.size() > most) {
      kept.emplace_back(ellipsis);
      break;
    }
    used += character.size();
    kept.push_back(std::move(character));
  }
  if (size > most && keep == Keep::end) std::ranges::reverse(kept);
  return fmt::format("{}", fmt::join(kept, ""));
}

// ---- what is said of a result ----

// Of a failure, its tags and all.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostOfMessage = 1200;
constexpr std::size_t kMostOfCommand = 1000;

std::string sentence_of(const Header& header, const std::string& id) {
  const auto found = header.requirements.find(id);
  return found == header.requirements.end() ? id
                                            : fmt::format("{} ({}) {}", id, found->second.level, found->second.text);
}

// The requirement that is violated, with its sentence, then why.
std::string message_of(const Result& result, const Header& header) {
  const std::vector<std::string>& about = run::at_stake(result);
  if (about.empty()) return words_of(result);
  std::string text = sentence_of(header, about.front());
  if (about.size() > 1)
    text += fmt::format(" [and {}]", fmt::join(std::vector<std::string>(about.begin() + 1, about.end()), ", "));
  return fmt::format("{}: {}", text, words_of(result));
}

std::string ranks_of(const Result& result) {
  std::string text;
  for (const RankResult& rank : result.ranks) {
    text +=
        fmt::format("rank {}{}: {}\n", rank.rank, rank.host.empty() ? "" : " on " + rank.host, name_of(rank.verdict));
    for (const Failure& failure : rank.failures) text += fmt::format("  {} {}\n", failure.where, failure.message);
    if (!rank.last_event.empty()) text += fmt::format("  it {}\n", rank.last_event);
  }
  return text;
}

// The command that repeats it, then what the ranks say, then the end of what was printed.
std::string details(const Result& result, std::size_t most) {
  std::string text;
  if (!result.repeat.empty()) text = escaped("repeat: " + result.repeat, kMostOfCommand) + "\n";
  const std::size_t left = most - std::min(most, text.size() + 20);
  text += escaped(ranks_of(result), result.output.empty() ? left : left * 2 / 3);
  if (const std::size_t used = text.size() + 20; !result.output.empty() && used < most)
    text += "\noutput:\n" + escaped(result.output, most - used, Keep::end);
  return text;
}

// An expected failure is shown as skipped with its reason: CI servers count and list those apart, and neither hide them
// among the passes, as they do with properties, nor turn red.
enum class Shown { passed, skipped, failed, error };

Shown shown(const Result& result, const Header& header) {
  const Judgement judgement = judge(result);
  if (judgement == Judgement::error || judgement == Judgement::inconclusive || judgement == Judgement::aborted)
    return Shown::error;
  if (is_bad(result, header)) return Shown::failed;
  const bool passed =
      judgement == Judgement::pass || judgement == Judgement::warn || judgement == Judgement::unexpected_pass;
  return passed ? Shown::passed : Shown::skipped;
}

bool has_run(const Result& result) { return result.verdict != Verdict::missing && result.verdict != Verdict::not_run; }

// What a CI server follows a case by from run to run: nothing of how it ends, and no seed.
std::string identity_of(const Result& result) {
  std::string name = result.case_id;
  if (const std::string kind = result.mode.substr(0, result.mode.find(':')); kind != "plain") name += " under " + kind;
  if (!result.mutant.empty()) name += " of " + result.mutant;
  if (result.repetition > 0) name += fmt::format(" #{}", result.repetition + 1);
  return name;
}

// ---- the file ----

std::string property(const std::string& name, const std::string& value) {
  return fmt::format("<property name=\"{}\" value=\"{}\"/>", escaped(name), escaped(value, kMostOfMessage));
}

struct TestCase {
  std::string class_name, name;
  double seconds = 0;
  Place place = {};
  std::vector<std::pair<std::string, std::string>> properties = {};
  Shown how = Shown::passed;
  std::string type = {};     // of a failure or an error
  std::string message = {};  // of all but a pass
  const Result* details = nullptr;
  std::string output = {};  // of a pass
};

class TestSuite {
 public:
  void add(const TestCase& one) {
    ++tests_;
    failures_ += one.how == Shown::failed;
    errors_ += one.how == Shown::error;
    skipped_ += one.how == Shown::skipped;
    seconds_ += one.seconds;
    std::string place;
    if (!one.place.file.empty())
      place = fmt::format(" file=\"{}\" line=\"{}\"", escaped(one.place.file), one.place.line);
    text_ += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\"{}>\n", escaped(one.class_name),
                         escaped(one.name), one.seconds, place);
    if (!one.properties.empty()) {
      text_ += "      <properties>";
      for (const auto& [name, value] : one.properties) text_ += property(name, value);
      text_ += "</properties>\n";
    }
    if (one.how == Shown::skipped)
      text_ += fmt::format("      <skipped message=\"{}\"/>\n", escaped(one.message, kMostOfMessage));
    if (one.how == Shown::failed || one.how == Shown::error) add_failure(one);
    if (!one.output.empty())
      text_ += fmt::format("      <system-out>{}</system-out>\n", escaped(one.output, kMostBytes / 2));
    text_ += "    </testcase>\n";
  }

  [[nodiscard]] std::string text(const std::string& name, const std::string& properties,
                                 const std::string& started) const {
    return fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\" "
        "timestamp=\"{}\">\n{}{}  </testsuite>\n",
        escaped(name), tests_, failures_, errors_, skipped_, seconds_, started.substr(0, 19), properties, text_);
  }

 private:
  void add_failure(const TestCase& one) {
    const std::string_view element = one.how == Shown::failed ? "failure" : "error";
    const std::string open = fmt::format("<{} message=\"{}\" type=\"{}\">", element,
                                         escaped(one.message, kMostOfMessage), escaped(one.type));
    const std::string close = fmt::format("</{}>", element);
    const std::string inside =
        one.details == nullptr ? "" : details(*one.details, kMostBytes - open.size() - close.size());
    text_ += fmt::format("      {}{}{}\n", open, inside, close);
  }

  int tests_ = 0, failures_ = 0, errors_ = 0, skipped_ = 0;
  double seconds_ = 0;
  std::string text_;
};

std::string properties_of(const Run& run) {
  const Header& header = run.header;
  std::vector<std::pair<std::string, std::string>> list{{"command", header.command},
                                                        {"subject", name_of_subject(run)},
                                                        {"suite_version", header.suite_version},
                                                        {"seed", std::to_string(header.seed)},
                                                        {"complete", run.complete ? "yes" : "no"}};
  if (header.subject != name_of_subject(run)) list.emplace_back("subject_as_given", header.subject);
  if (!header.profile.empty()) list.emplace_back("profile", header.profile);
  if (!header.profile_version.empty()) list.emplace_back("profile_version", header.profile_version);
  for (const char* fact : {"backend", "device", "mutant"})
    if (const auto found = header.facts.find(fact); found != header.facts.end()) list.emplace_back(fact, found->second);
  if (header.shard) list.emplace_back("shard", fmt::format("{}/{}", header.shard->index, header.shard->count));
  if (header.budget_seconds > 0) list.emplace_back("budget_seconds", fmt::format("{}", header.budget_seconds));
  for (const auto& [name, value] : header.labels) list.emplace_back("label." + name, value);
  std::string text = "    <properties>\n";
  for (const auto& [name, value] : list) text += fmt::format("      {}\n", property(name, value));
  return text + "    </properties>\n";
}

// Whether the run came to its end: what has no result is counted here, once.
TestCase case_of_run(const Run& run, const std::vector<Result>& results) {
  TestCase one{.class_name = "plumbline.run", .name = "every planned case has a result", .seconds = run.seconds};
  const auto lost = std::ranges::count_if(results, [](const Result& result) { return !has_run(result); });
  if (run.complete && lost == 0) return one;
  one.how = Shown::error;
  one.type = !run.stopped.empty() ? "not-run" : run.complete ? "missing" : "unfinished";
  one.message = !run.stopped.empty() ? run.stopped : run.complete ? "the run lost results" : "the run has not finished";
  if (!run.header.plan.empty())
    one.message += fmt::format("; {} of {} {} no result", lost, run::counted(run.header.plan.size(), "planned case"),
                               lost == 1 ? "has" : "have");
  return one;
}

// The first failure that is about values.
const Failure* values_of(const Result& result) {
  for (const RankResult& rank : result.ranks)
    for (const Failure& failure : rank.failures)
      if (!failure.expected.empty() || !failure.got.empty()) return &failure;
  return nullptr;
}

TestCase case_of(const Result& result, const Header& header) {
  TestCase one{.class_name = result.check,
               .name = identity_of(result),
               .seconds = result.seconds,
               .properties = {{"verdict", std::string(name_of(judge(result)))},
                              {"seed", std::to_string(result.seed)},
                              {"arm", result.mode}},
               .how = shown(result, header),
               .type = std::string(name_of(judge(result))),
               .details = &result};
  if (const auto found = header.checks.find(result.check); found != header.checks.end()) one.place = found->second;
  for (const auto& [name, value] : result.parameters)
    if (name == "world") one.properties.emplace_back(name, value);
  if (!result.requirements.empty())
    one.properties.emplace_back("requirements", fmt::format("{}", fmt::join(result.requirements, " ")));
  if (const Failure* found = values_of(result)) {
    for (const auto& [name, value] :
         {std::pair("expected", found->expected), std::pair("got", found->got), std::pair("bound", found->bound)})
      if (!value.empty()) one.properties.emplace_back(name, value);
    if (found->rank) one.properties.emplace_back("rank", std::to_string(*found->rank));
  }
  if (one.how == Shown::failed || one.how == Shown::error) one.message = message_of(result, header);
  if (one.how == Shown::skipped) one.message = words_of(result);
  // Servers have no word for it: the requirement's own case says it as well, where they list it.
  if (judge(result) == Judgement::warn && one.how == Shown::passed)
    one.output = fmt::format("WARNING: {}\nrepeat: {}\n", message_of(result, header), result.repeat);
  return one;
}

// ---- requirements ----

// The cases of one requirement.
struct Evidence {
  int cases = 0, bad = 0, not_run = 0;
  const Result* worst = nullptr;  // the first that is bad, else that has an error, else that is no pass
  int weight = 0;                 // of `worst`
};

int weight_of(const Result& result, const Header& header) {
  switch (shown(result, header)) {
    case Shown::failed:
      return 3;
    case Shown::error:
      return 2;
    default:
      return judge(result) != Judgement::pass;
  }
}

TestCase case_of(const std::string& id, const run::RequirementVerdict& verdict, const Evidence& evidence,
                 const Header& header) {
  const Judgement judgement = verdict.judgement;
  TestCase one{.class_name = "plumbline.requirements",
               .name = id,
               .properties = {{"verdict", std::string(name_of(judgement))}},
               .how = evidence.weight == 3   ? Shown::failed
                      : evidence.weight == 2 ? Shown::error
                                             : Shown::passed,
               .type = std::string(name_of(judgement))};
  if (const auto found = header.requirements.find(id); found != header.requirements.end()) {
    one.properties.emplace_back("level", found->second.level);
    one.properties.emplace_back("text", found->second.text);
  }
  if (judgement == Judgement::pass && verdict.ran < verdict.cases) {
    one.properties.emplace_back("cases", fmt::format("{} of {}", verdict.ran, verdict.cases));
    one.output = fmt::format("{}: the others were skipped\n", verdict.words());
  }
  const std::string first =
      evidence.worst == nullptr ? "" : fmt::format("{}: {}", identity_of(*evidence.worst), words_of(*evidence.worst));
  if (one.how == Shown::failed)
    one.message = fmt::format("{}: {} of {} {}; first: {}", sentence_of(header, id), evidence.bad,
                              run::counted(evidence.cases, "case"), evidence.bad == 1 ? "fails" : "fail", first);
  else if (one.how == Shown::error)
    one.message = fmt::format("{}: {}", sentence_of(header, id), first);
  else if (judgement == Judgement::warn)  // of all that servers list, the nearest to a warning
    one.how = Shown::skipped, one.message = fmt::format("WARNING: {}: {}", sentence_of(header, id), first);
  else if (evidence.not_run > 0)
    one.how = Shown::skipped,
    one.message = fmt::format("{} of {} {} no result", evidence.not_run, run::counted(evidence.cases, "case"),
                              evidence.not_run == 1 ? "has" : "have");
  else if (judgement != Judgement::pass && judgement != Judgement::unexpected_pass)
    one.how = Shown::skipped, one.message = first.empty() ? std::string(name_of(judgement)) : first;
  if (one.how == Shown::failed || one.how == Shown::error) one.details = evidence.worst;
  return one;
}

std::map<std::string, Evidence> evidence_of(const std::vector<Result>& results, const Header& header) {
  std::map<std::string, Evidence> all;
  for (const Result& result : results)
    for (const std::string& id : result.requirements) {
      Evidence& evidence = all[id];
      ++evidence.cases;
      evidence.not_run += !has_run(result);
      if (!has_run(result)) continue;
      if (!run::is_about(result, id)) continue;
      const int weight = weight_of(result, header);
      evidence.bad += shown(result, header) == Shown::failed;
      if (weight > evidence.weight) evidence.worst = &result, evidence.weight = weight;
    }
  return all;
}

}  // namespace

std::string to_junit(const Run& run) {
  const std::vector<Result> results = with_missing(run);
  const std::string subject = name_of_subject(run);
  TestSuite of_run;
  of_run.add(case_of_run(run, results));
  std::map<std::string, TestSuite> suites;  // by component
  const auto component = [](const std::string& check) { return check.substr(0, check.find('.')); };
  for (const Result& result : results)
    if (has_run(result)) suites[component(result.check)].add(case_of(result, run.header));
  std::set<std::string> measured;
  for (const Measurement& measurement : run.measurements) {
    std::vector<std::string> labels;
    for (const auto& [name, value] : measurement.labels) labels.push_back(fmt::format("{}={}", name, value));
    const bool has_id = !measurement.case_id.empty();
    const std::string name = has_id ? measurement.case_id : fmt::format("{}", fmt::join(labels, ","));
    const std::string check = has_id ? name.substr(0, name.find('[')) : measurement.benchmark;
    if (!measured.insert(check + " " + name).second) continue;  // another part of the same
    suites[component(check)].add({.class_name = check, .name = name});
  }
  TestSuite of_requirements;
  const std::map<std::string, Evidence> evidence = evidence_of(results, run.header);
  for (const auto& [id, verdict] : requirement_verdicts(results))
    of_requirements.add(case_of(id, verdict, evidence.at(id), run.header));
  const std::string properties = properties_of(run);
  const auto text = [&](const std::string& name, const TestSuite& suite) {
    return suite.text(fmt::format("plumbline {} ({})", name, subject), properties, run.header.started);
  };
  std::string all = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n" + text("run", of_run);
  for (const auto& [name, suite] : suites) all += text(name, suite);
  if (!evidence.empty()) all += text("requirements", of_requirements);
  return all + "</testsuites>\n";
}

}  // namespace plumbline::junit
