#include "harness/record/junit.hpp"

#include <map>

#include <fmt/format.h>

#include "harness/record/summary.hpp"

namespace plumbline::record {
namespace {

// XML 1.0 has no way at all to write most control characters.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\t')
          out += '?';
        else
          out += c;
    }
  }
  return out;
}

// Bytes that are no UTF-8 would make the whole file unreadable; JSON's writer knows how to replace them.
std::string valid_utf8(const std::string& text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string valid = nlohmann::json::parse(quoted).get<std::string>();
  for (const char* no_character : {"\xef\xbf\xbe", "\xef\xbf\xbf"})  // of XML
    for (std::size_t at = 0; (at = valid.find(no_character, at)) != std::string::npos;) valid.replace(at, 3, 1, '?');
  return valid;
}

std::string details(const Result& result) {
  std::string text;
  for (const RankResult& rank : result.ranks) {
    text += fmt::format("rank {}: {}\n", rank.rank, name_of(rank.verdict));
    for (const Failure& failure : rank.failures) text += fmt::format("  {} {}\n", failure.where, failure.message);
    if (!rank.last_event.empty()) text += fmt::format("  it {}\n", rank.last_event);
  }
  if (!result.output.empty()) text += "output:\n" + result.output + "\n";
  return text + "repeat: " + result.repeat + "\n";
}

// An expected failure is shown as skipped with its reason: CI servers count and list those apart, and neither hide them
// among the passes, as they do with properties, nor turn red.
enum class Shown { passed, skipped, failed, error };

Shown shown(const Result& result, const Header& header) {
  const Judgement judgement = judge(result);
  if (judgement == Judgement::error || judgement == Judgement::inconclusive || judgement == Judgement::missing ||
      judgement == Judgement::aborted || judgement == Judgement::not_run)
    return Shown::error;
  if (is_bad(result, header)) return Shown::failed;
  const bool passed =
      judgement == Judgement::pass || judgement == Judgement::warn || judgement == Judgement::unexpected_pass;
  return passed ? Shown::passed : Shown::skipped;
}

std::string test_case(const Result& result, Shown how) {
  const std::string open = fmt::format(R"(    <testcase classname="{}" name="{}" time="{:.6f}")", escaped(result.check),
                                       escaped(result.key()), result.seconds);
  const auto inside = [&](std::string_view element) {
    return fmt::format("{}>\n      <{} message=\"{}\" type=\"{}\">{}</{}>\n    </testcase>\n", open, element,
                       escaped(valid_utf8(words_of(result))), name_of(judge(result)),
                       escaped(valid_utf8(details(result))), element);
  };
  if (how == Shown::skipped)
    return fmt::format("{}>\n      <skipped message=\"{}\"/>\n    </testcase>\n", open,
                       escaped(valid_utf8(words_of(result))));
  if (how == Shown::failed) return inside("failure");
  if (how == Shown::error) return inside("error");
  return open + "/>\n";
}

}  // namespace

std::string to_junit(const Run& run) {
  struct Totals {
    int tests = 0, failures = 0, errors = 0, skipped = 0;
    double seconds = 0;
    std::string cases;
  };
  std::map<std::string, Totals> suites;
  for (const Result& result : with_missing(run)) {
    Totals& totals = suites[result.check.substr(0, result.check.find('.'))];
    ++totals.tests;
    const Shown how = shown(result, run.header);
    totals.failures += how == Shown::failed;
    totals.errors += how == Shown::error;
    totals.skipped += how == Shown::skipped;
    totals.seconds += result.seconds;
    totals.cases += test_case(result, how);
  }
  for (const Measurement& measurement : run.measurements) {
    Totals& totals = suites[measurement.benchmark.substr(0, measurement.benchmark.find('.'))];
    std::string labels;
    for (const auto& [name, value] : measurement.labels)
      labels += fmt::format("{}{}={}", labels.empty() ? "" : ",", name, value);
    ++totals.tests;
    totals.cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"/>\n",
                                escaped(measurement.benchmark), escaped(labels));
  }
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const auto& [name, totals] : suites)
    text += fmt::format(
        "  <testsuite name=\"plumbline {} ({})\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
        "time=\"{:.3f}\" timestamp=\"{}\">\n{}  </testsuite>\n",
        escaped(name), escaped(run.header.subject), totals.tests, totals.failures, totals.errors, totals.skipped,
        totals.seconds, run.header.started.substr(0, 19), totals.cases);
  return text + "</testsuites>\n";
}

}  // namespace plumbline::record
